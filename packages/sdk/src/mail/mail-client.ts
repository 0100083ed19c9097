/** The client of one account: what an app calls, over the copy, the server and the tab that leads. */
import { Bodies } from './bodies.ts';
import type { MailClient, MailState, TrafficEvent } from './client.ts';
import { Copy, type NewOperation } from './copy.ts';
import { Leader } from './leader.ts';
import type { TellTraffic } from './live.ts';
import { type ClientParts, isCutOff, StoredMailbox } from './mailbox-handle.ts';
import { memoryStore } from './memory-store.ts';
import { pendingOf } from './operation.ts';
import { readSends, saveDraft, sendMail } from './outgoing.ts';
import type { Platform } from './platform.ts';
import { type AccountRow, type MessageRow, put } from './rows.ts';
import { correspondents, search } from './search.ts';
import { MailServer, type ServerOptions } from './server.ts';
import type { Store } from './store.ts';
import { sweepSignedOut } from './sweep.ts';
import { isLed, type TabMessage, Tabs } from './tabs.ts';
import { Telling } from './telling.ts';
import { listMailboxes, rowToMessage, viewThread } from './views.ts';

export interface ClientOptions {
  readonly baseUrl: string;
  readonly address: string;
  readonly auth: ServerOptions['auth'];
  readonly app: string | undefined;
  readonly store: Store;
  readonly storage: MailClient['storage'];
  readonly syncAll: boolean;
  /** Octets of texts that are kept; 0 fetches none ahead. */
  readonly bodyBudget: number;
  readonly platform: Platform;
}

export class StoredMailClient implements MailClient, ClientParts {
  readonly address: string;
  storage: MailClient['storage'];
  state: MailState = 'cached';
  readonly platform: Platform;
  readonly copy: Copy;
  readonly server: MailServer;
  readonly bodies: Bodies;
  readonly #options: ClientOptions;
  readonly #telling: Telling;
  #tabs: Tabs;
  #leader: Leader | undefined;
  #stateReason: string | undefined;
  #stopListening: () => void = () => undefined;
  readonly #opened = new Set<string>();
  #isClosed = false;
  /** Mailboxes that the leader reads since somebody wants them; true where it has, and that is being stored. */
  #reading = new Map<string, boolean>();

  constructor(options: ClientOptions) {
    this.#options = options;
    const { address, baseUrl, platform, store, storage, bodyBudget: budget } = options;
    this.address = address;
    this.storage = storage;
    this.platform = platform;
    const tell = this.#traffic('http');
    const pause = (ms: number) => this.#tabs.tell({ type: 'pause', ms });
    const server = new MailServer({ ...options, tell, pause });
    const origin = new URL(baseUrl).origin;
    const changed = () => this.#telling.changed();
    const copy = new Copy({ store, origin, address, changed });
    this.server = server;
    this.copy = copy;
    this.bodies = new Bodies({ copy, server, platform, budget });
    this.#telling = new Telling(this);
    this.#tabs = this.#makeTabs(store);
  }

  #traffic(channel: TrafficEvent['channel']): TellTraffic {
    return (direction, title, body) => {
      const at = this.platform.now();
      this.#telling.emit('traffic', { direction, channel, title, body, at });
    };
  }

  #makeTabs(store: Store): Tabs {
    const tabs: Tabs = new Tabs({
      store,
      account: this.copy.account,
      platform: this.platform,
      lead: (epoch) => this.#lead(epoch),
      // Those of a store that is lost may end when this tab leads by others.
      deposed: () => tabs === this.#tabs && this.#stopLeading(),
      hear: (message) => this.#hear(message),
      state: () => ({ state: this.state, stateReason: this.#stateReason }),
      beat: () => {
        this.#tellLost();
        this.#reload();
      },
      slept: () => this.reconnect(),
    });
    return tabs;
  }

  /** The store cannot be used any more: this tab goes on by itself, with what it has in memory. */
  #fallBack(): void {
    if (this.#isClosed || this.storage === 'memory') return;
    this.storage = 'memory';
    this.#stopLeading();
    void this.#tabs.close();
    const memory = memoryStore();
    this.copy.replaceStore(memory);
    this.#tabs = this.#makeTabs(memory);
    void this.#tabs.start();
    this.#tellLost();
    this.#telling.emit('state', { state: this.state, stateReason: this.#stateReason });
  }

  /** @throws Error where nothing can be stored; then it did not start */
  async start(): Promise<void> {
    const { store, account } = this.copy;
    await sweepSignedOut(store, account);
    await this.copy.open();
    store.onLost = () => this.#fallBack();
    this.#stopListening = this.platform.listen(
      () => this.reconnect(),
      // The store may be lost, or the client closed, before a page that was left is shown again.
      () => void this.#tabs.leave().catch(() => undefined),
    );
    await this.#tabs.start();
    this.#look();
  }

  readonly mailbox: MailClient['mailbox'] = (name) => new StoredMailbox(this, name);
  readonly mailboxes: MailClient['mailboxes'] = () => listMailboxes(this.copy);
  readonly thread: MailClient['thread'] = (threadId) => viewThread(this.copy, threadId);
  readonly createMailbox: MailClient['createMailbox'] = (mailbox) =>
    this.#remake({ action: 'create', mailbox });
  readonly renameMailbox: MailClient['renameMailbox'] = (mailbox, to) =>
    this.#remake({ action: 'rename', mailbox, to });
  readonly deleteMailbox: MailClient['deleteMailbox'] = (mailbox) =>
    this.#remake({ action: 'delete', mailbox });
  readonly send: MailClient['send'] = (mail, options) => sendMail(this, mail, options);
  readonly saveDraft: MailClient['saveDraft'] = (mail, replaces) => saveDraft(this, mail, replaces);
  readonly sends: MailClient['sends'] = () => readSends(this);
  readonly pending: MailClient['pending'] = async () => pendingOf(this);
  readonly search: MailClient['search'] = (query, { signal } = {}) =>
    search(this.copy, this.server, query, signal);
  readonly correspondents: MailClient['correspondents'] = (prefix, limit = 8) =>
    correspondents(this.copy, prefix, limit);
  readonly on: MailClient['on'] = (name, tell) => this.#telling.on(name, tell);
  readonly watch: ClientParts['watch'] = (read, tell) => this.#telling.watch(read, tell);
  readonly waitUntil: ClientParts['waitUntil'] = (isSo) => this.#telling.waitUntil(isSo);

  async #remake(how: Pick<NewOperation, 'action' | 'mailbox' | 'to'>): Promise<void> {
    await this.change(() => [{ kind: 'mailbox', ids: [], ...how }]);
  }

  readonly change: ClientParts['change'] = async (make, files) => {
    const rows = await this.copy.add(make, files);
    this.#wrote();
    return rows;
  };

  reconnect(): void {
    if (this.#isClosed) return;
    void this.#tabs.take();
    if (this.#leader) this.#wake(this.#leader);
    else this.#tabs.tell({ type: 'wake' });
  }

  #wake(leader: Leader): void {
    if (this.state !== 'stopped') {
      leader.wake();
      return;
    }
    this.#stopLeading();
    this.server.forget();
    this.#setState('cached', undefined);
    if (this.#tabs.epoch !== undefined) this.#lead(this.#tabs.epoch);
  }

  async close(): Promise<void> {
    await this.#end();
    await this.copy.store.close();
  }

  async signOut(): Promise<void> {
    const { store, account } = this.copy;
    // From here on no tab writes: neither a leader of before nor a change of the user.
    await store.update('accounts', [account], (row) => {
      const now = row as AccountRow | undefined;
      const over = { leaseUntil: 0, signedOut: true };
      return now ? [put('accounts', { ...now, ...over, epoch: now.epoch + 1 })] : [];
    });
    this.#tabs.tell({ type: 'wrote' });
    await this.#end();
    await this.copy.reload();
    await sweepSignedOut(store, account);
    this.#setState('stopped', 'signed out');
    await store.close();
  }

  async #end(): Promise<void> {
    this.#isClosed = true;
    this.#stopListening();
    this.#telling.end();
    this.#stopLeading();
    await this.#tabs.close();
    this.server.forget();
  }

  #lead(epoch: number): void {
    this.bodies.forget();
    const tabs = this.#tabs;
    const ended = () => {
      this.#readAsked();
      this.#telling.ended();
    };
    const start = () => {
      // It may have been deposed meanwhile, and lead anew.
      if (this.#isClosed || tabs.epoch !== epoch) return;
      this.#leader = new Leader({
        ...this.#options,
        copy: this.copy,
        server: this.server,
        epoch,
        isOpen: (name) => this.#opened.has(name) || this.copy.asked.includes(name),
        tell: this.#traffic('websocket'),
        tellState: (state, reason) => this.#setState(state, reason),
        received: (rows) => this.#received(rows),
        wrote: () => this.#tellTabs(),
        ended,
        deposed: () => this.#tabs.deposed(),
        prefetch: () => this.bodies.next(epoch),
      });
      this.#reading = new Map();
      this.#leader.start();
      ended();
    };
    // What the leader before wrote last.
    void this.copy.reload().then(start, () => tabs.deposed());
  }

  #stopLeading(): void {
    this.#leader?.stop();
    this.#leader = undefined;
  }

  #hear(message: TabMessage): void {
    if (this.#isClosed) return;
    if (message.type === 'wrote') this.#reload();
    else if (message.type === 'pause') this.server.pauseFor(message.ms);
    else if (message.type === 'lost') this.copy.shareUpTo(message.seq);
    else if (this.#leader) this.#wake(this.#leader);
  }

  #tellLost(): void {
    const { sharedUpTo: seq } = this.copy;
    if (seq > 0) this.#tabs.tell({ type: 'lost', seq });
  }

  /** What other tabs wrote. A store that cannot be read is looked into again with the next beat. */
  #reload(): void {
    void this.copy.reload().then(
      () => !this.#isClosed && this.#look(),
      () => undefined,
    );
  }

  /** There may be something to do, or to be told by the tab that leads. */
  #look(): void {
    const { row } = this.copy;
    if (!row) {
      void this.#end().then(() => this.#setState('stopped', 'signed out'));
      return;
    }
    this.#leader?.pump();
    this.#readAsked();
    if (this.#tabs.epoch !== undefined) return;
    if (!isLed(row, this.platform)) void this.#tabs.take();
    else if (row.state) this.#setState(row.state as MailState, row.stateReason);
  }

  /** Reads the mailboxes that somebody wants, as long as this tab leads; those that were read nobody waits for any more. */
  #readAsked(): void {
    const leader = this.#leader;
    if (!leader) return;
    for (const name of this.copy.asked) {
      const isRead = this.#reading.get(name);
      if (isRead === undefined) {
        this.#reading.set(name, false);
        leader.sync(name);
      } else if (!isRead && !leader.due.isBusy(name)) {
        const over = () => this.#reading.delete(name);
        this.#reading.set(name, true);
        void this.#ask(name, true).then(over, over);
      }
    }
  }

  #wrote(): void {
    this.#tabs.tell({ type: 'wrote' });
    this.#look();
  }

  /** Somebody looks at a mailbox: one that the copy lacks is read. */
  open(name: string): void {
    if (this.#opened.has(name)) return;
    this.#opened.add(name);
    if (this.copy.mailbox(name)?.token === undefined) void this.#ask(name).catch(() => undefined);
  }

  async #ask(name: string, isRead = false): Promise<void> {
    await this.copy.ask(name, isRead);
    this.#wrote();
  }

  async sync(name: string): Promise<void> {
    this.#opened.add(name);
    this.#leader?.sync(name);
    await this.#ask(name);
    await this.#telling.waitUntil(() => !this.copy.asked.includes(name) || isCutOff(this.state));
  }

  #setState(state: MailState, reason?: string): void {
    if (this.state === state && this.#stateReason === reason) return;
    this.state = state;
    this.#stateReason = reason;
    this.#telling.emit('state', { state, stateReason: reason });
    this.#telling.changed();
    if (this.#leader) this.#tellTabs();
  }

  /** The other tabs read in the account's row that there is something, and how this one stands to the server. */
  #tellTabs(): void {
    void this.#tabs.take().then(() => this.#tabs.tell({ type: 'wrote' }));
  }

  #received(rows: readonly MessageRow[]): void {
    const messages = rows.map((row) => rowToMessage(row, this.copy.box(row.box)?.name ?? ''));
    this.#telling.emit('received', { messages });
  }
}
