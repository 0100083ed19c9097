/**
 * The log of the wire: requests, answers and WebSocket messages, with every secret struck out.
 */

/** Entries that are kept; older ones are dropped. */
const ENTRIES_MAX = 200;
/** Characters of one body that are kept. */
const TEXT_MAX = 6_000;
const STRUCK_OUT = '•••';

/**
 * @typedef {object} ProtocolEntry
 * @property {number} id
 * @property {Date} at
 * @property {'http' | 'ws'} protocol
 * @property {'up' | 'down' | 'note'} direction up: sent by the page; down: sent by the server
 * @property {string} title one line: what was asked, or what was told
 * @property {string} outcome status of the answer, empty while there is none
 * @property {boolean} failed
 * @property {number | undefined} ms how long the answer took
 * @property {string} sent
 * @property {string} received
 */

/**
 * @typedef {object} PendingAnswer
 * @property {(status: number, headers: Headers, body: string) => void} answered
 * @property {(reason: string) => void} failed no answer came
 */

export class ProtocolLog {
  /** @type {ProtocolEntry[]} */
  entries = [];
  /** Told of every entry that is new or has changed. @type {(entry: ProtocolEntry) => void} */
  onEntry = () => {};
  /** @type {Set<string>} */
  #secrets = new Set();
  #lastId = 0;

  /**
   * From now on this text is struck out wherever it appears.
   *
   * @param {string} secret a password or a token
   */
  hide(secret) {
    if (secret !== '') this.#secrets.add(secret);
  }

  clear() {
    this.entries = [];
  }

  /**
   * A request that is about to be sent.
   *
   * @param {string} method
   * @param {string} path
   * @param {Record<string, string>} headers
   * @param {unknown} body what is sent as JSON
   * @returns {PendingAnswer}
   */
  request(method, path, headers, body) {
    const started = performance.now();
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const sent = [`${method} ${path}`, ...lines, ...(body === undefined ? [] : ['', pretty(body)])];
    const entry = this.#add({
      protocol: 'http',
      direction: 'up',
      title: `${method} ${path}${mailboxOf(body)}`,
      sent: sent.join('\n'),
    });
    /** @param {Partial<ProtocolEntry>} outcome */
    const end = (outcome) => {
      Object.assign(entry, outcome, { ms: Math.round(performance.now() - started) });
      this.onEntry(entry);
    };
    return {
      answered: (status, answerHeaders, text) => {
        const shown = ['content-type', 'retry-after', 'x-ratelimit-remaining']
          .filter((name) => answerHeaders.has(name))
          .map((name) => `${name}: ${answerHeaders.get(name)}`);
        const received = [`HTTP ${status}`, ...shown, '', prettyText(text)].join('\n');
        end({
          outcome: String(status),
          failed: status >= 400,
          received: this.#clean(received),
        });
      },
      failed: (reason) => end({ outcome: 'no answer', failed: true, received: reason }),
    };
  }

  /**
   * A WebSocket message, or a change of the socket's state.
   *
   * @param {'up' | 'down' | 'note'} direction
   * @param {string} title
   * @param {string} [text]
   */
  socket(direction, title, text = '') {
    const entry = this.#add({ protocol: 'ws', direction, title });
    if (direction === 'down') entry.received = this.#clean(prettyText(text));
    else entry.sent = this.#clean(text);
    this.onEntry(entry);
  }

  /** @param {Partial<ProtocolEntry> & Pick<ProtocolEntry, 'protocol' | 'direction' | 'title'>} given */
  #add(given) {
    this.#lastId++;
    const entry = {
      id: this.#lastId,
      at: new Date(),
      outcome: '',
      failed: false,
      ms: undefined,
      received: '',
      ...given,
      title: this.#clean(given.title),
      sent: this.#clean(given.sent ?? ''),
    };
    this.entries.push(entry);
    if (this.entries.length > ENTRIES_MAX) this.entries.shift();
    this.onEntry(entry);
    return entry;
  }

  /** @param {string} text */
  #clean(text) {
    let cleaned = text;
    // Struck out before the text is cut: half a secret would not be found.
    for (const secret of this.#secrets) cleaned = cleaned.replaceAll(secret, STRUCK_OUT);
    if (cleaned.length <= TEXT_MAX) return cleaned;
    const rest = (cleaned.length - TEXT_MAX).toLocaleString('en');
    return `${cleaned.slice(0, TEXT_MAX)}\n… ${rest} more characters`;
  }
}

/**
 * What a sync is about, for the title.
 *
 * @param {unknown} body
 */
function mailboxOf(body) {
  const named = typeof body === 'object' && body !== null && 'mailbox' in body;
  return named ? ` ${body.mailbox}` : '';
}

/** @param {unknown} value */
function pretty(value) {
  return JSON.stringify(value, undefined, 2);
}

/**
 * JSON laid out to be read; other text as it is.
 *
 * @param {string} text
 */
function prettyText(text) {
  if (!/^[[{]/.test(text)) return text;
  try {
    return pretty(JSON.parse(text));
  } catch {
    return text;
  }
}
