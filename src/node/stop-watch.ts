/** The parts of one publish, for its log line. */
export class StopWatch {
  readonly #startedMs = performance.now();
  readonly #laps: Record<string, number> = {};
  #lastMs = this.#startedMs;

  lap(name: string): void {
    const nowMs = performance.now();
    this.set(name, nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  set(name: string, ms: number): void {
    this.#laps[name] = Math.round(ms);
  }

  laps(): Record<string, number> {
    return { ...this.#laps, total_ms: Math.round(performance.now() - this.#startedMs) };
  }
}
