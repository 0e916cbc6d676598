import type { Schema, Verdict } from "./flags.ts";

/**
 * Schemas for the flags of a role that pods wait for: to load zod would take longer than anything
 * else that it does.
 */
export function oneOf<T extends string>(words: readonly T[], standard: T): Schema<T> {
  return schemaOf((value) => {
    const word = words.find((known) => known === (value ?? standard));
    return word === undefined ? wrong(`one of ${words.join(", ")} is right`) : right(word);
  });
}

export function absolutePath(standard: string): Schema<string> {
  return schemaOf((value) => {
    const path = value ?? standard;
    if (typeof path !== "string" || !path.startsWith("/")) {
      return wrong("a path that starts with / is right");
    }
    return right(path);
  });
}

/** The same, where nothing is right too. */
export function absolutePathIfAny(): Schema<string | undefined> {
  return schemaOf((value) => {
    if (value === undefined) return right(undefined);
    return absolutePath("/").safeParse(value);
  });
}

function schemaOf<T>(safeParse: (value: unknown) => Verdict<T>): Schema<T> {
  return { safeParse };
}

function right<T>(data: T): Verdict<T> {
  return { success: true, data };
}

function wrong(message: string): Verdict<never> {
  return { success: false, error: { issues: [{ message }] } };
}
