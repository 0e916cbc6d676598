import { once } from "node:events";
import { connect } from "node:net";
import { socketPathOf } from "./serve.ts";

/**
 * Why nobody could reach us at our own socket, if so. A server does not notice that its socket
 * was removed or replaced in the file system; the kubelet does.
 */
export async function socketProblem(
  endpoint: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const socket = connect(socketPathOf(endpoint));
  try {
    await once(socket, "connect", { signal });
    return undefined;
  } catch (error) {
    return `socket ${socketPathOf(endpoint)}: ${(error as Error).message}`;
  } finally {
    socket.destroy();
  }
}
