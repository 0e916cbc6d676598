import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";

/**
 * Runs `work` while no other process of this machine runs work under the same name. The lock is an
 * abstract socket: the kernel frees it when its holder dies, and those who wait hear of it.
 */
export async function withLock<T>(name: string, work: () => Promise<T>): Promise<T> {
  const path = `\0${name}`;
  const waiting = new Set<Socket>();
  const server = createServer((socket) => {
    socket.on("error", () => {}); // who waits may die waiting
    waiting.add(socket);
  });
  while (!(await listens(server, path))) await hangsUp(path);
  try {
    return await work();
  } finally {
    server.close();
    for (const socket of waiting) socket.destroy();
  }
}

async function listens(server: Server, path: string): Promise<boolean> {
  try {
    server.listen(path);
    await once(server, "listening");
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
    throw error;
  }
}

/** Until the holder lets go, by its own will or by its death. */
async function hangsUp(path: string): Promise<void> {
  await closeOf(connect(path)); // at once when the holder let go before we could ask
}

/** The end of a connection, whether it is closed or breaks. */
export function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.on("error", () => {}).once("close", () => resolve());
  });
}
