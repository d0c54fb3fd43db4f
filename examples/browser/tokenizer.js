// WordPiece with the same ids as keras_bert's for every text.
//
// characters.json says what happens to each character (lower case, accents, white space,
// punctuation). build.py makes it with keras_bert's own tokenizer. The code uses none of
// JavaScript's Unicode functions for this, because their versions differ from browser to browser.

const CONTINUATION = "##";
const [LETTER, REMOVED, SPACE, ALONE] = [0, 1, 2, 3];
const KINDS = { removed: REMOVED, space: SPACE, alone: ALONE };

export class WordPiece {
  #ids; // id of each piece, without special tokens, because text cannot become these
  #special; // id of each special token
  #anySpecial; // pattern of all special tokens
  #longest; // characters of the longest piece
  #limit; // a word with more characters is unknown
  #kinds; // kind of each code point
  #replaced; // replacement of each character that changes

  // vocabulary: the content of vocab.txt, one token a line.
  // options: special_tokens (role to token) and max_characters_per_word, as in options.json.
  // characters: removed, space and alone (ranges of code points) and replaced (a character to its
  // replacement), as in characters.json.
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

  // Returns the ids of a text, without [CLS] and [SEP]. With allowSpecialTokens, special tokens
  // written in the text are read as tokens.
  tokenize(text, { allowSpecialTokens = false } = {}) {
    const valid = text.replace(/\p{Surrogate}/gu, "\ufffd"); // lone surrogates
    if (!allowSpecialTokens) return this.#tokenizePlain(valid);
    const parts = valid.split(this.#anySpecial); // special tokens are at odd places
    return parts.flatMap((part, i) => (i % 2 ? this.#special.get(part) : this.#tokenizePlain(part)));
  }

  #tokenizePlain(text) {
    const ids = [];
    for (const word of this.#words(text)) ids.push(...this.#pieces(word));
    return ids;
  }

  // Yields the normalized words as arrays of characters.
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

  // Splits a word: takes the longest piece that fits, then the next one.
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
