import * as z from "zod";
import { Failure } from "./failure.ts";

/** The one door for outside data: a typed value, or a Failure that names every wrong field. */
export function parse<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  throw new Failure("invalid", z.prettifyError(result.error), result.error);
}
