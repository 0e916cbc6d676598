import { en } from "zod/locales";
import * as z from "zod/mini";
import { Failure } from "./failure.ts";

z.config(en()); // zod/mini has no words of its own; all of zod takes 10 ms more to load

/** The one door for outside data: a typed value, or a Failure that names every wrong field. */
export function parse<T>(schema: z.core.$ZodType<T>, input: unknown): T {
  const result = z.safeParse(schema, input);
  if (result.success) return result.data;
  throw new Failure("invalid", z.prettifyError(result.error), result.error);
}
