// What is seen of every part: its box, cut by those around it that scroll or clip. A part inside another is no fault.
() => {
  const parts = ".name > *, .metrics div, .tools > *, .talk h2, .scroll, .composer, .phases, .said, .iff, .canvas, .legend > *, .test, .counts, "
    + ".knob, summary, .last, .both, .lacks, .wrong, .buttons > *, .livebar > *, .track, .why, .tabs button";
  const shown = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const cut = (one) => {
    let { left, top, right, bottom } = one.getBoundingClientRect();
    for (let each = one.parentElement; each; each = each.parentElement) {
      const style = getComputedStyle(each), edge = each.getBoundingClientRect();
      if (style.overflowX !== "visible") [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      if (style.overflowY !== "visible") [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { one, name: `${one.className || one.tagName} ${one.textContent.slice(0, 24)}`, left, top, right, bottom };
  };
  const around = document.querySelector(".stage-around");
  const seen = [...around.querySelectorAll(parts)].filter(shown).map(cut).filter((box) => box.right - box.left > 1 && box.bottom - box.top > 1);
  const faults = [];
  seen.forEach((a, n) => seen.slice(n + 1).forEach((b) => {
    if (a.one.contains(b.one) || b.one.contains(a.one)) return;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1) faults.push(`'${a.name}' over '${b.name}' by ${wide.toFixed(0)} x ${high.toFixed(0)}`);
  }));
  for (const { one, name } of seen) {
    const { left, top, right, bottom } = one.getBoundingClientRect(), scrolls = one.closest(".turns, .why, .scroll, .tabs");
    if (left < -1 || right > innerWidth + 1) faults.push(`'${name}' leaves the window at its side`);
    if (!scrolls && (top < -1 || bottom > innerHeight + 1)) faults.push(`'${name}' leaves the window at ${bottom.toFixed(0)} of ${innerHeight}`);
  }
  for (const name of [".middle", ".stage > header"]) {
    const one = around.querySelector(name);
    if (one.scrollHeight > one.clientHeight + 1) faults.push(`${name} holds ${one.scrollHeight} in ${one.clientHeight}`);
  }
  const letters = [...around.querySelectorAll("svg.tree .node text")].filter((one) => one.textContent.trim());
  const least = Math.min(...letters.map((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a));
  return { faults, least, n: seen.length, canvas: around.querySelector(".canvas").clientHeight };
}
