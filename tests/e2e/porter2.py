"""The English stemmer of Snowball ("Porter2"), written after its description (snowballstem.org/algorithms/english/stemmer.html): what the
server's own is compared with."""

import re

VOWELS = "aeiouy"
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
WHOLE = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl", "gently": "gentl",
    "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl",
}  # fmt: skip
UNCHANGED = {"sky", "news", "howe", "atlas", "cosmos", "bias", "andes"}
AFTER_STEP_1A = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed", "evening"}
STEP_2 = {
    "tional": "tion", "enci": "ence", "anci": "ance", "abli": "able", "entli": "ent", "izer": "ize", "ization": "ize",
    "ational": "ate", "ation": "ate", "ator": "ate", "ogist": "og", "alism": "al", "aliti": "al", "alli": "al", "fulness": "ful",
    "ousli": "ous", "ousness": "ous", "iveness": "ive", "iviti": "ive", "biliti": "ble", "bli": "ble", "fulli": "ful", "lessli": "less",
}  # fmt: skip
STEP_3 = {"tional": "tion", "ational": "ate", "alize": "al", "icate": "ic", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4 = ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate", "iti", "ous", "ive", "ize"]


def regions(word):
    """Where R1 and R2 begin."""
    for prefix in ("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter"):
        if word.startswith(prefix):
            first = len(prefix)
            break
    else:
        first = after_vowel_and_consonant(word, 0)
    return first, after_vowel_and_consonant(word, first)


def after_vowel_and_consonant(word, start):
    for at in range(start + 1, len(word)):
        if word[at] not in VOWELS and word[at - 1] in VOWELS:
            return at + 1
    return len(word)


def ends_short(word):
    if word.endswith("past"):
        return True
    if len(word) == 2:
        return word[0] in VOWELS and word[1] not in VOWELS
    if len(word) < 3:
        return False
    a, b, c = word[-3:]
    return a not in VOWELS and b in VOWELS and c not in VOWELS + "wxY"


def has_vowel(text):
    return any(letter in VOWELS for letter in text)


def longest(word, endings):
    fitting = [ending for ending in endings if word.endswith(ending)]
    return max(fitting, key=len) if fitting else None


def stem(word):
    if len(word) <= 2:
        return word
    if word in WHOLE:
        return WHOLE[word]
    if word in UNCHANGED:
        return word
    word = word.lstrip("'")
    # A y that stands for a consonant is written Y.
    if word.startswith("y"):
        word = "Y" + word[1:]
    word = re.sub(r"(?<=[aeiouy])y", "Y", word)
    r1, r2 = regions(word)
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            word = word[: -len(ending)]
            break
    word = step_1a(word)
    if word in AFTER_STEP_1A:
        return word
    word = step_1b(word, r1)
    if word[-1:] in ("y", "Y") and len(word) > 2 and word[-2] not in VOWELS:
        word = word[:-1] + "i"
    word = step_2(word, r1)
    word = step_3(word, r1, r2)
    word = step_4(word, r2)
    word = step_5(word, r1, r2)
    return word.replace("Y", "y")


def step_1a(word):
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")):
        return word
    if word.endswith("s") and has_vowel(word[:-2]):
        return word[:-1]
    return word


def step_1b(word, r1):
    ending = longest(word, ["eed", "eedly", "ed", "edly", "ing", "ingly"])
    if ending is None:
        return word
    rest = word[: -len(ending)]
    if ending.startswith("eed"):
        return rest + "ee" if len(rest) >= r1 else word
    if not has_vowel(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if ending == "ing" and len(rest) == 2 and rest[1] == "y" and rest[0] not in VOWELS:
        return rest[0] + "ie"
    if rest.endswith(DOUBLES):
        return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]
    if ends_short(rest) and len(rest) <= r1:
        return rest + "e"
    return rest


def step_2(word, r1):
    ending = longest(word, [*STEP_2, "ogi", "li"])
    if ending is None or len(word) - len(ending) < r1:
        return word
    rest = word[: -len(ending)]
    if ending == "ogi":
        return rest + "og" if rest.endswith("l") else word
    if ending == "li":
        return rest if rest[-1:] in tuple("cdeghkmnrt") else word
    return rest + STEP_2[ending]


def step_3(word, r1, r2):
    ending = longest(word, [*STEP_3, "ative"])
    if ending is None or len(word) - len(ending) < r1:
        return word
    rest = word[: -len(ending)]
    if ending == "ative":
        return rest if len(rest) >= r2 else word
    return rest + STEP_3[ending]


def step_4(word, r2):
    ending = longest(word, [*STEP_4, "ion"])
    if ending is None or len(word) - len(ending) < r2:
        return word
    rest = word[: -len(ending)]
    if ending == "ion" and rest[-1:] not in ("s", "t"):
        return word
    return rest


def step_5(word, r1, r2):
    at = len(word) - 1
    if word.endswith("e") and (at >= r2 or at >= r1 and not ends_short(word[:-1])):
        return word[:-1]
    if word.endswith("l") and at >= r2 and word.endswith("ll"):
        return word[:-1]
    return word
