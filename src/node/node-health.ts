import { socketProblem } from "../csi/socket-problem.ts";
import type { WatchHealth } from "../kube/watch-health.ts";
import type { Shortfall } from "./platform.ts";

/** What the kubelet's probes of the node service look at. */
export class NodeHealth {
  readonly #watches: WatchHealth;
  readonly #sockets: string[] = [];
  /** Why the kubelet sends no work. */
  #unregistered: string | undefined = "the kubelet has not registered the driver yet";
  #shortfalls: readonly Shortfall[] = [];

  constructor(watches: WatchHealth) {
    this.#watches = watches;
  }

  served(endpoint: string): void {
    this.#sockets.push(endpoint);
  }

  registrationTold(refusal: string | undefined): void {
    this.#unregistered =
      refusal === undefined ? undefined : `the kubelet refused the registration: ${refusal}`;
  }

  /** Takes the points in which the node is below the supported platform. */
  platformFound(shortfalls: readonly Shortfall[]): void {
    this.#shortfalls = shortfalls;
  }

  /** Fallbacks work, so they are notes and no problems. */
  notes(): string[] {
    return this.#wordsOf(({ level }) => level === "fallback");
  }

  /** The reason why no volume can be mounted on this node. */
  refusal(): string | undefined {
    return this.#wordsOf(({ level }) => level === "unusable")[0];
  }

  async alive(signal: AbortSignal): Promise<string[]> {
    const asked = this.#sockets.map((endpoint) => socketProblem(endpoint, signal));
    const problems = (await Promise.all(asked)).filter((problem) => problem !== undefined);
    return [...this.#watches.hanging(), ...problems];
  }

  async ready(signal: AbortSignal): Promise<string[]> {
    const unregistered = this.#unregistered === undefined ? [] : [this.#unregistered];
    const unsupported = this.#wordsOf(({ level }) => level !== "fallback");
    const watches = this.#watches.unsynced();
    return [...(await this.alive(signal)), ...watches, ...unregistered, ...unsupported];
  }

  #wordsOf(isMeant: (shortfall: Shortfall) => boolean): string[] {
    return this.#shortfalls.filter(isMeant).map(({ words }) => words);
  }
}
