import { totalmem } from "node:os";

/**
 * The memory limit of the container that this process runs in. Undefined where there is none:
 * `constrained` is 0 then, or larger than the machine.
 */
export function containerMemory(
  constrained: number = process.constrainedMemory(),
  machine: number = totalmem(),
): number | undefined {
  return constrained > 0 && constrained < machine ? constrained : undefined;
}
