/** The kernel looks a name up and creates it in the next breath: S3 need not be asked twice. */
const TRUST_MS = 250;
const NAMES_MAX = 256;

/** Names that were answered to be absent a moment ago. Each is believed once. */
export class RecentAbsences {
  readonly #sinceMs = new Map<string, number>();

  add(parent: number, name: string): void {
    const key = `${parent}/${name}`;
    this.#sinceMs.delete(key); // the youngest is the last
    this.#sinceMs.set(key, performance.now());
    if (this.#sinceMs.size <= NAMES_MAX) return;
    const [oldest] = this.#sinceMs.keys();
    if (oldest !== undefined) this.#sinceMs.delete(oldest);
  }

  take(parent: number, name: string): boolean {
    const key = `${parent}/${name}`;
    const sinceMs = this.#sinceMs.get(key);
    return this.#sinceMs.delete(key) && performance.now() - (sinceMs ?? 0) < TRUST_MS;
  }
}
