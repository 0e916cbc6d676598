import koffi from "koffi";
import { bind, checked } from "../../src/sys/libc.ts";

/**
 * To be imported first: from then on the system calls whose numbers OLD_KERNEL_LACKS names end with
 * ENOSYS in this process and its children, as on a kernel that does not have them.
 */
const SYS_SECCOMP = process.arch === "arm64" ? 277 : 317;
const SECCOMP_SET_MODE_FILTER = 1;
const SECCOMP_FILTER_FLAG_TSYNC = 1;
const RETURN_ENOSYS = 0x0005_0000 | 38;
const RETURN_ALLOW = 0x7fff_0000;
const LOAD_WORD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const RETURN = 0x06;

koffi.struct("sock_fprog", { length: "uint16_t", filter: "const void *" });
const seccomp = bind(
  "long syscall(long number, unsigned int operation, unsigned int flags, sock_fprog *program)",
);

const lacking = (process.env["OLD_KERNEL_LACKS"] ?? "").split(",").map(Number);
/** An instruction of the kernel's packet filter: 8 bytes. */
function instruction(code: number, ifTrue: number, ifFalse: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(ifTrue, 2);
  bytes.writeUInt8(ifFalse, 3);
  bytes.writeUInt32LE(value, 4);
  return bytes;
}

const filter = [
  instruction(LOAD_WORD, 0, 0, 0), // the number of the call
  ...lacking.flatMap((number) => [
    instruction(JUMP_IF_EQUAL, 0, 1, number),
    instruction(RETURN, 0, 0, RETURN_ENOSYS),
  ]),
  instruction(RETURN, 0, 0, RETURN_ALLOW),
];
const program = { length: filter.length, filter: Buffer.concat(filter) };
const flags = SECCOMP_FILTER_FLAG_TSYNC;
checked("seccomp", seccomp(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, flags, program));
