"""Messages to begin a conversation with, by what they are, in the order in which they are offered."""

CHAT_EXAMPLES: dict[str, str] = {
    "explain": "Explain in simple words why the sky is blue.",
    "code": "Write a Python function that checks whether a word is a palindrome, with a short docstring.",
    "translate": "Translate into French: The library opens at nine and closes at six in the evening.",
    "summarise": (
        "Summarise in two sentences: Honeybees tell each other where flowers are by dancing. A bee that has found "
        "nectar comes back to the hive and walks in a figure of eight, shaking her body on the middle line. The angle "
        "of that line says in which direction to fly with respect to the sun, and the longer she shakes, the farther "
        "it is. The other bees follow her in the dark, feel the movement with their antennae, and then fly out by "
        "themselves. The same dance is used when a swarm looks for a new home: scouts dance for the place they have "
        "found, the livelier the better it is, and the others go and look, until nearly all of them dance for the same "
        "place and the whole swarm sets off."
    ),
    "sum": "A train goes 60 miles in the first hour and 45 in the second. How far is that? Show the steps.",
    "story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
}
