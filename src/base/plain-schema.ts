import type { Schema, Verdict } from "./flags.ts";

/**
 * Schemas for the flags of roles that pods wait for: loading zod would take longer than anything
 * else that such a role does at its start.
 */
export function oneOf<T extends string>(words: readonly T[], standard: T): Schema<T> {
  return schemaOf((value) => {
    const word = words.find((known) => known === (value ?? standard));
    return word === undefined ? wrong(`must be one of ${words.join(", ")}`) : right(word);
  });
}

export function absolutePath(standard: string): Schema<string> {
  return schemaOf((value) => {
    const path = value ?? standard;
    if (typeof path !== "string" || !path.startsWith("/")) {
      return wrong("must be an absolute path");
    }
    return right(path);
  });
}

/** An absolute path, or nothing. */
export function absolutePathIfAny(): Schema<string | undefined> {
  return schemaOf((value) => {
    if (value === undefined) return right(undefined);
    return absolutePath("/").safeParse(value);
  });
}

/** A whole number above zero, or nothing. */
export function countIfAny(): Schema<number | undefined> {
  return schemaOf((value) => {
    if (value === undefined) return right(undefined);
    const isCount = typeof value === "string" && /^[1-9]\d{0,9}$/.test(value);
    return isCount ? right(Number(value)) : wrong("must be a whole number above zero");
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
