import { Failure } from "./failure.ts";

/** A Failure of this kind says that the work is done already. */
export async function unless(done: Failure["kind"], work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== done) throw error;
  }
}
