import { Failure } from "./failure.ts";

/**
 * What a value from outside has to be: gives it typed, or throws a Failure that names the field.
 * The value is never quoted, for it may be a key. Pods and applications wait while mounter and
 * engine start, and to load zod would take longer than all else that they load.
 */
export type Shape<T> = (value: unknown, name: string) => T;

export const flag: Shape<boolean> = (value, name) =>
  typeof value === "boolean" ? value : refuse(name, "true or false");

export const number: Shape<number> = (value, name) =>
  typeof value === "number" && Number.isFinite(value) ? value : refuse(name, "a number");

export const descriptor: Shape<number> = (value, name) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0
    ? value
    : refuse(name, "a descriptor");

export const filled = textThat((text) => text !== "", "a text that is not empty");

export function textThat(isRight: (text: string) => boolean, right: string): Shape<string> {
  return (value, name) =>
    typeof value === "string" && isRight(value) ? value : refuse(name, right);
}

export function oneOf<const T extends string>(words: readonly T[]): Shape<T> {
  return (value, name) => words.find((word) => word === value) ?? refuse(name, anyOf(words));
}

export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  return (value, name) => (value === null ? null : shape(value, name));
}

export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, name) => (value === undefined ? undefined : shape(value, name));
}

export function list<T>(shape: Shape<T>): Shape<T[]> {
  return (value, name) => {
    if (!Array.isArray(value)) return refuse(name, "a list");
    return value.map((one: unknown, index) => shape(one, `${name}[${index}]`));
  };
}

/** Any number of fields of one kind. */
export function table<T>(isName: (name: string) => boolean, shape: Shape<T>) {
  return (value: unknown, name: string): Record<string, T> => {
    const fields = Object.entries(recordOf(value, name));
    const foreign = fields.find(([field]) => !isName(field));
    if (foreign !== undefined) return refuse(pathOf(name, foreign[0]), "absent");
    return Object.fromEntries(
      fields.map(([field, one]) => [field, shape(one, pathOf(name, field))]),
    );
  };
}

/** These fields and no others. */
export function record<T extends object>(fields: { [K in keyof T]-?: Shape<T[K]> }): Shape<T> {
  const known = Object.entries(fields) as [string, Shape<unknown>][];
  return (value, name) => {
    const given = recordOf(value, name);
    const foreign = Object.keys(given).find((field) => !Object.hasOwn(fields, field));
    if (foreign !== undefined) return refuse(pathOf(name, foreign), "absent");
    const read = known.map(([field, shape]) => [field, shape(given[field], pathOf(name, field))]);
    return Object.fromEntries(read.filter(([, one]) => one !== undefined)) as T;
  };
}

/** A record of one of several kinds, as the word in one of its fields says. */
export function choice<T>(by: string, kinds: Readonly<Record<string, Shape<T>>>): Shape<T> {
  const shapes = new Map<unknown, Shape<T>>(Object.entries(kinds));
  return (value, name) => {
    const shape = shapes.get(recordOf(value, name)[by]);
    return (shape ?? refuse(pathOf(name, by), anyOf(Object.keys(kinds))))(value, name);
  };
}

function refuse(name: string, right: string): never {
  throw new Failure("invalid", `${name === "" ? "the message" : name} must be ${right}`);
}

function anyOf(words: readonly string[]): string {
  return words.map((word) => JSON.stringify(word)).join(" or ");
}

function pathOf(name: string, field: string): string {
  return name === "" ? field : `${name}.${field}`;
}

function recordOf(value: unknown, name: string): Readonly<Record<string, unknown>> {
  const isRecord = typeof value === "object" && value !== null && !Array.isArray(value);
  return isRecord ? { ...value } : refuse(name, "an object");
}
