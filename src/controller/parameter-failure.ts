import { Failure } from "../base/failure.ts";

/** A parameter of a StorageClass that can't be used so. */
export class ParameterFailure extends Failure {
  readonly parameter: string;

  constructor(parameter: string, message: string, cause?: unknown) {
    super("invalid", message, cause);
    this.parameter = parameter;
  }
}

export function wrongParameter(
  key: string,
  value: string | undefined,
  rule: string,
): ParameterFailure {
  const message = `StorageClass parameter ${key} is ${JSON.stringify(value)}: ${rule}`;
  return new ParameterFailure(key, message);
}
