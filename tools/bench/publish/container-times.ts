const LINE = /^(\S+) (\d\d:\d\d:\d\d\.\d{1,3})\d* \+0000 UTC \S+ \/tasks\/(start|exit) (\{.*\})$/;

/** When containers started and ended, by the container runtime's own word. */
export class ContainerTimes {
  readonly #started = new Map<string, number>();
  readonly #ended = new Map<string, number>();

  /** One line of `ctr events`; most are about something else. */
  take(line: string): void {
    const [, day, time, what, facts = ""] = LINE.exec(line) ?? [];
    if (what === undefined) return;
    const { container_id: container, id } = JSON.parse(facts) as Record<string, unknown>;
    if (typeof container !== "string") return;
    if (id !== undefined && id !== container) return; // of a process that was started beside it
    const times = what === "start" ? this.#started : this.#ended;
    times.set(container, Date.parse(`${day}T${time}Z`));
  }

  startedMs(container: string): number {
    return known(this.#started, container, "start");
  }

  endedMs(container: string): number {
    return known(this.#ended, container, "end");
  }
}

function known(times: ReadonlyMap<string, number>, container: string, what: string): number {
  const time = times.get(container);
  if (time === undefined) throw new Error(`the runtime told of no ${what} of ${container}`);
  return time;
}
