import { closeSync, constants, openSync, readSync } from "node:fs";
import koffi from "koffi";
import { bind, SystemError } from "../../src/sys/libc.ts";

/**
 * A program of its own, since a fault in mapped memory can't be caught: maps the first page of the
 * file argv[2], opened for argv[3] (`r` or `rw`), as argv[4] (`shared` or `private`), for argv[5]
 * (`r` or `rw`). Prints the beginning as the map and as read(2) show it, or the errno's name. With
 * `rw` it first puts an X into the map.
 */
const PAGE_BYTES = 4096;
const SHOWN_BYTES = 8;
const PROT = { r: 1, rw: 3 };
const MAP = { shared: 1, private: 2 };
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

const mmap = bind("void *mmap(void *at, size_t size, int prot, int flags, int fd, long offset)");

function mapped(fd: number, share: "shared" | "private", access: "r" | "rw"): string {
  const address = mmap(null, PAGE_BYTES, PROT[access], MAP[share], fd, 0);
  if (BigInt.asUintN(64, koffi.address(address)) === MAP_FAILED) {
    return new SystemError("mmap", koffi.errno()).code;
  }
  const bytes = Buffer.from(koffi.view(address, PAGE_BYTES));
  if (access === "rw") bytes.write("X", 0);
  return bytes.toString("latin1", 0, SHOWN_BYTES);
}

const [path = "", openFor, share, access] = process.argv.slice(2);
const fd = openSync(path, openFor === "rw" ? constants.O_RDWR : constants.O_RDONLY);
const map = mapped(fd, share === "shared" ? "shared" : "private", access === "rw" ? "rw" : "r");
const page = Buffer.alloc(SHOWN_BYTES);
readSync(fd, page, 0, SHOWN_BYTES, 0);
closeSync(fd);
console.log(JSON.stringify({ map, read: page.toString("latin1") }));
