// WordPiece, as keras_bert has it: the same ids for every text.
//
// What happens to each character (lower case, accents, white space, punctuation) is read from
// characters.json, which build.py made by asking keras_bert's own tokenizer; JavaScript's
// knowledge of Unicode, which differs from browser to browser, is not used.

const CONTINUATION = "##";
const [LETTER, REMOVED, SPACE, ALONE] = [0, 1, 2, 3];
const KINDS = { removed: REMOVED, space: SPACE, alone: ALONE };

export class WordPiece {
  #ids; // of the pieces that text can become, which special tokens are not
  #special; // ids of the special tokens
  #anySpecial;
  #longest; // characters of a piece
  #limit; // characters of a word
  #kinds; // of each code point
  #replaced; // characters that become others

  // vocabulary: the text of vocab.txt, one token a line.
  // options: special_tokens (role to token) and max_characters_per_word, as in options.json.
  // characters: removed, space and alone (ranges of code points) and replaced (a character to
  // what it becomes), as in characters.json.
  constructor(vocabulary, options, characters) {
    this.tokens = vocabulary.replace(/\r*\n$/, "").split(/\r*\n/);
    this.#ids = new Map(this.tokens.map((token, id) => [token, id]));
    const special = Object.values(options.special_tokens);
    this.#special = new Map(special.map((token) => [token, this.#ids.get(token)]));
    special.forEach((token) => this.#ids.delete(token));
    const longestFirst = [...this.#special.keys()].sort((a, b) => b.length - a.length);
    const literally = longestFirst.map((token) => token.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    this.#anySpecial = new RegExp(`(${literally.join("|")})`, "u");
    this.#longest = this.tokens.reduce((longest, token) => Math.max(longest, token.length), 0);
    this.#limit = options.max_characters_per_word;
    this.#kinds = new Uint8Array(0x110000);
    for (const [name, kind] of Object.entries(KINDS)) {
      for (const [first, last] of characters[name]) this.#kinds.fill(kind, first, last + 1);
    }
    this.#replaced = new Map(Object.entries(characters.replaced));
    for (const [role, token] of Object.entries(options.special_tokens)) {
      this[role] = { token, id: this.#special.get(token) };
    }
  }

  // The ids of a text, without [CLS] and [SEP]. With allowSpecialTokens, a special token that is
  // written in the text is that token.
  tokenize(text, { allowSpecialTokens = false } = {}) {
    const valid = text.replace(/\p{Surrogate}/gu, "\ufffd"); // those without their other half
    if (!allowSpecialTokens) return this.#tokenizePlain(valid);
    const parts = valid.split(this.#anySpecial); // at odd places the special tokens
    return parts.flatMap((part, i) => (i % 2 ? this.#special.get(part) : this.#tokenizePlain(part)));
  }

  #tokenizePlain(text) {
    const ids = [];
    for (const word of this.#words(text)) ids.push(...this.#pieces(word));
    return ids;
  }

  // Words as arrays of characters, normalised.
  *#words(text) {
    let word = [];
    for (const original of text) {
      for (const character of this.#replaced.get(original) ?? original) {
        const kind = this.#kinds[character.codePointAt(0)];
        if (kind === LETTER) {
          word.push(character);
        } else if (kind !== REMOVED) {
          if (word.length) yield word;
          word = [];
          if (kind === ALONE) yield [character];
        }
      }
    }
    if (word.length) yield word;
  }

  // The longest piece that fits, again and again.
  #pieces(word) {
    if (word.length > this.#limit) return [this.unknown.id];
    const ids = [];
    for (let start = 0; start < word.length; ) {
      const prefix = start ? CONTINUATION : "";
      let end = Math.min(word.length, start + this.#longest);
      let id;
      while (end > start) {
        id = this.#ids.get(prefix + word.slice(start, end).join(""));
        if (id !== undefined) break;
        end -= 1;
      }
      if (id === undefined) return [this.unknown.id];
      ids.push(id);
      start = end;
    }
    return ids;
  }
}
