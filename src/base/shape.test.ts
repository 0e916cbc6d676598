import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "./failure.ts";
import {
  choice,
  filled,
  flag,
  list,
  number,
  oneOf,
  optional,
  orNull,
  record,
  table,
} from "./shape.ts";

const shape = choice<object>("do", {
  eat: record({
    do: oneOf(["eat"]),
    what: filled,
    with: optional(oneOf(["fork", "spoon"])),
    times: number,
    again: flag,
    guests: list(filled),
    seats: table((name) => /^[a-z]+$/.test(name), orNull(filled)),
  }),
  sleep: record({ do: oneOf(["sleep"]) }),
});
const EAT = { do: "eat", what: "soup", times: 2, again: false, guests: ["a"], seats: { a: null } };

test("what has the shape is read as it is", () => {
  for (const value of [EAT, { ...EAT, with: "spoon", guests: [], seats: {} }, { do: "sleep" }]) {
    assert.deepEqual(shape(value, ""), value);
  }
  assert.deepEqual(shape({ ...EAT, with: undefined }, ""), EAT);
});

// prettier-ignore
const wrong: [name: string, value: unknown, message: string][] = [
  ["no value", undefined, "the message must be an object"],
  ["a list", [EAT], "the message must be an object"],
  ["no kind", {}, 'do must be "eat" or "sleep"'],
  ["an unknown kind", { do: "hidden" }, 'do must be "eat" or "sleep"'],
  ["a kind that every object has", { do: "toString" }, 'do must be "eat" or "sleep"'],
  ["a field too many", { do: "sleep", long: "hidden" }, "long must be absent"],
  ["a field that every object has", { do: "sleep", valueOf: "hidden" }, "valueOf must be absent"],
  ["a field too few", { ...EAT, what: undefined }, "what must be a text that is not empty"],
  ["an empty text", { ...EAT, what: "" }, "what must be a text that is not empty"],
  ["an unknown word", { ...EAT, with: "hidden" }, 'with must be "fork" or "spoon"'],
  ["a number as a text", { ...EAT, times: "2" }, "times must be a number"],
  ["a truth as a number", { ...EAT, again: 1 }, "again must be true or false"],
  ["a text as a list", { ...EAT, guests: "hidden" }, "guests must be a list"],
  ["a wrong one in a list", { ...EAT, guests: ["a", 5] }, "guests[1] must be a text that is not empty"],
  ["a wrong one in a table", { ...EAT, seats: { a: 5 } }, "seats.a must be a text that is not empty"],
  ["a wrong name in a table", { ...EAT, seats: { A: null } }, "seats.A must be absent"],
];
for (const [name, value, message] of wrong) {
  test(`${name} is refused by the name of the field, and no value is quoted`, () => {
    assert.throws(
      () => shape(value, ""),
      (error) => error instanceof Failure && error.kind === "invalid" && error.message === message,
    );
  });
}
