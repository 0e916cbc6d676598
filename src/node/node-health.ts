import { socketProblem } from "../csi/socket-problem.ts";
import type { WatchBook } from "../kube/watch-book.ts";

/** What the kubelet's probes of the node service look at. */
export class NodeHealth {
  readonly #watches: WatchBook;
  readonly #sockets: string[] = [];
  /** Why the kubelet sends no work. */
  #unregistered: string | undefined = "the kubelet has not registered the driver yet";

  constructor(watches: WatchBook) {
    this.#watches = watches;
  }

  served(endpoint: string): void {
    this.#sockets.push(endpoint);
  }

  registrationTold(refusal: string | undefined): void {
    this.#unregistered =
      refusal === undefined ? undefined : `the kubelet refused the registration: ${refusal}`;
  }

  async alive(signal: AbortSignal): Promise<string[]> {
    const asked = this.#sockets.map((endpoint) => socketProblem(endpoint, signal));
    const problems = (await Promise.all(asked)).filter((problem) => problem !== undefined);
    return [...this.#watches.hanging(), ...problems];
  }

  async ready(signal: AbortSignal): Promise<string[]> {
    const unregistered = this.#unregistered === undefined ? [] : [this.#unregistered];
    return [...(await this.alive(signal)), ...this.#watches.unsynced(), ...unregistered];
  }
}
