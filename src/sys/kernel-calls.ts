import { bind, checked, SystemError } from "./libc.ts";

/** System calls that older kernels lack; their numbers are the same on every architecture. */
const NUMBERS = { openat2: 437, mount_setattr: 442 } as const;
export type KernelCall = keyof typeof NUMBERS;

const cSyscall = bind("long syscall(long number, long a, long b, long c, long d, long e)");

/** The calls that the running kernel lacks. */
export function missingKernelCalls(): KernelCall[] {
  return (Object.keys(NUMBERS) as KernelCall[]).filter((call) => !hasCall(call));
}

/** Each of these calls fails with EINVAL without its buffer of arguments, and changes nothing. */
function hasCall(call: KernelCall): boolean {
  try {
    checked(call, cSyscall(NUMBERS[call], -1, 0, 0, 0, 0));
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return error.code !== "ENOSYS";
  }
  return true;
}
