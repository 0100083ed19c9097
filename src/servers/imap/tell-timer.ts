/** When a session looks at what others changed: at the first change at once, then at all that came in between. */

/** Milliseconds between two looks. */
const TELL_EVERY = 100;

export class TellTimer {
  readonly #look: () => void;
  #toldAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(look: () => void) {
    this.#look = look;
  }

  /** Something changed. */
  start(): void {
    if (this.#timer) return;
    const wait = Math.max(0, this.#toldAt + TELL_EVERY - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#toldAt = performance.now();
      this.#look();
    }, wait);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
