import { inspect } from "node:util";

const HIDDEN = "[secret]";

/**
 * A string that can't be printed by accident: JSON, template strings and inspect() show a mark.
 * Only `reveal()`, which is easy to grep for, gives the text.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [inspect.custom](): string {
    return HIDDEN;
  }
}
