import { Failure } from "../base/failure.ts";

/** A volumeAttribute that can't be used so. */
export class AttributeFailure extends Failure {
  /** The attribute without which the others would do: one that the volume has. */
  readonly attribute: string;

  constructor(attribute: string, message: string) {
    super("invalid", `volumeAttributes.${message}`);
    this.attribute = attribute;
  }
}
