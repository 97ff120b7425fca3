from specviz.train import measure, tokens
def write(out, request, store, ledgers):
    import json, torch
    from transformers import LlamaForCausalLM
    t,d=(LlamaForCausalLM.from_pretrained(out/n,dtype=torch.float32).eval() for n in ('target','draft'))
    from specviz.train.objectives import held_out_loss
    r={}
    for n,ids in store.held_out.items():
        w=tokens.fixed(ids,48,256)
        r[n]=dict(t=held_out_loss(t,w),d=held_out_loss(d,w),agree=measure.agreement(t,d,w),chain=measure.chain_acceptance(t,d,w[::6]))
    r['ms']=measure.speed_ratio(t,d)
    print(r)
    (out/'card.json').write_text(json.dumps(r))
