/** The pane with the mailboxes and the list: messages of one mailbox from the cache, or search results. */
import { Conversations } from './conversations.js';
import { byId, element } from './elements.js';
import { emptyHint } from './empty-hint.js';
import { showTabs, showTitle } from './mailbox-tabs.js';
import { MailboxView } from './mailbox-view.js';
import { Search } from './search.js';

/** @typedef {import('./address-bar.js').Place} Place */
/** @typedef {import('./inbox.js').Inbox} Inbox */
/** @typedef {import('./mailbox-view.js').Entry} Entry */

/**
 * @typedef {object} ListPaneOptions
 * @property {import('./session.js').Session} session
 * @property {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
 * @property {(entry: Entry) => void} onStar
 * @property {(query: string) => void} onSearch
 * @property {() => void} onSendTest
 */

export class ListPane {
  #options;
  #view;
  #field = byId('search', HTMLInputElement);
  /** @type {Inbox | undefined} */
  #inbox;
  /** @type {Place} */
  #place = { mailbox: 'INBOX' };
  /** @type {Search | undefined} */
  #search;
  #searching = new AbortController();
  /** Why a search found nothing. */
  #trouble = '';
  #conversations = new Conversations(localStorage);
  /** Whether the server has answered: before that an empty list says nothing. */
  #isSettled = false;
  /** Whether the list is to have the focus once it is there. */
  #wantsFocus = false;
  /** What had the focus at the sign-in. @type {Element | null} */
  #focusedBefore = null;

  /** @param {ListPaneOptions} options */
  constructor(options) {
    this.#options = options;
    this.#view = new MailboxView({
      onMore: () => void (this.#search ? this.#findMore() : this.refresh()),
      onStar: options.onStar,
      onThread: (thread) => {
        this.#conversations.toggle(thread);
        void this.refresh();
      },
      isOutgoing: (mailbox) => ['\\Sent', '\\Drafts'].includes(this.#inbox?.useOf(mailbox) ?? ''),
    });
    byId('by-thread').addEventListener('click', () => {
      this.#conversations.switch();
      void this.refresh();
    });
    byId('search-form').addEventListener('submit', (event) => {
      event.preventDefault();
      options.onSearch(this.#field.value.trim());
    });
    // The cross in the field empties it.
    this.#field.addEventListener('search', () => {
      if (this.#field.value === '') options.onSearch('');
    });
  }

  get list() {
    return this.#view;
  }

  /**
   * @param {Inbox} inbox
   * @param {boolean} wantsFocus whether somebody has just signed in
   */
  open(inbox, wantsFocus) {
    this.#inbox = inbox;
    this.#isSettled = false;
    this.#wantsFocus = wantsFocus;
    this.#focusedBefore = document.activeElement;
    byId('empty').replaceChildren();
  }

  close() {
    this.#inbox = undefined;
    this.#searching.abort();
    this.#search = undefined;
    byId('messages').replaceChildren();
    byId('mailboxes').replaceChildren();
    byId('count').textContent = '';
    byId('account').textContent = '';
    this.#field.value = '';
    showTitle();
  }

  /** Every mailbox is as the server said. */
  settle() {
    this.#isSettled = true;
  }

  get isSettled() {
    return this.#isSettled;
  }

  /** @param {Place} place */
  async goTo(place) {
    this.#place = place;
    const { query } = place;
    if (query !== this.#search?.query) {
      this.#searching.abort();
      this.#searching = new AbortController();
      this.#trouble = '';
      this.#search = query === undefined ? undefined : new Search(this.#options.session, query);
      this.#field.value = query ?? '';
      if (this.#search) {
        byId('count').textContent = 'Searching…';
        await this.#findMore();
        return;
      }
    }
    await this.refresh();
  }

  async #findMore() {
    const search = this.#search;
    const { signal } = this.#searching;
    try {
      await search?.load(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#trouble = error instanceof Error ? error.message : String(error);
    }
    await this.refresh();
  }

  /** Shows everything again as the cache has it. */
  async refresh() {
    const inbox = this.#inbox;
    if (!inbox || inbox.account === '') return;
    const { account } = inbox;
    const { mailbox } = this.#place;
    const search = this.#search;
    if (search && !search.isAnswered && this.#trouble === '') return;
    const content = await (search ? this.#readMatches(search) : this.#readMailbox(account));
    const unread = await this.#options.cache.mailboxes(account);
    if (inbox !== this.#inbox || mailbox !== this.#place.mailbox || search !== this.#search) return;
    const names = inbox.mailboxes.length > 0 ? inbox.mailboxes : ['INBOX'];
    showTabs(names, search ? '' : mailbox, unread);
    showTitle(unread.get('INBOX'));
    byId('by-thread').setAttribute('aria-pressed', String(this.#conversations.isOn));
    byId('account').textContent = account;
    byId('account').title = account;
    this.#view.show(this.#place, content);
    this.#showEmpty(content.entries.length === 0, account);
    if (this.#wantsFocus && (content.entries.length > 0 || this.#isSettled)) {
      this.#wantsFocus = false;
      // If the user has moved the focus meanwhile, for example to write, it stays there.
      if (![document.body, this.#focusedBefore].includes(document.activeElement)) return;
      if (this.#place.uid === undefined) this.#view.focus();
      else byId('message-pane').focus();
    }
  }

  /** @param {string} account */
  async #readMailbox(account) {
    const { mailbox } = this.#place;
    const { messages, total } = await this.#options.cache.newest(
      account,
      mailbox,
      this.#view.wanted,
    );
    return {
      entries: this.#conversations.arrange(messages.map((message) => ({ mailbox, message }))),
      hasMore: total > messages.length,
      count: total === 0 ? '' : `${total.toLocaleString()} ${total === 1 ? 'message' : 'messages'}`,
    };
  }

  /** @param {Search} search */
  async #readMatches(search) {
    const account = this.#inbox?.account ?? '';
    const entries = await search.entries(this.#options.cache, account, this.#isSettled);
    const lag = search.isIndexing ? ' The newest mail is not in the index yet.' : '';
    const found = `${entries.length}${search.hasMore ? '+' : ''} found.${lag}`;
    return { entries, hasMore: search.hasMore, count: entries.length === 0 ? lag : found };
  }

  /**
   * @param {boolean} isEmpty
   * @param {string} account
   */
  #showEmpty(isEmpty, account) {
    const empty = byId('empty');
    empty.hidden = !isEmpty || !(this.#isSettled || this.#search);
    if (empty.hidden) return;
    const hint = this.#search
      ? [element('p', { role: 'alert' }, this.#trouble || 'Nothing found.')]
      : emptyHint(account, this.#place.mailbox, this.#options.onSendTest);
    // Written only after a change: the user may be copying a command.
    const key = this.#search ? `${this.#search.query}${this.#trouble}` : this.#place.mailbox;
    if (empty.dataset.shows === key) return;
    empty.dataset.shows = key;
    empty.replaceChildren(...hint);
  }
}
