/**
 * What the page shows, as the part of its address behind `#`: it stays in the browser, so that no server log names
 * mailboxes, and Back leads through panes and mailboxes.
 *
 *     #/ada@acme.test/INBOX                 a mailbox
 *     #/ada@acme.test/INBOX/t/81f3          a conversation of it
 *     #/ada@acme.test/INBOX/m/12            a message alone
 *     #/ada@acme.test/INBOX?q=from:bob      what a search found; `protocol` opens the panel
 */
import { shallowRef } from 'vue';
import { decodePercents } from '../reading/stranger-text.ts';

export interface Route {
  readonly address: string;
  readonly mailbox: string;
  /** What is open: a conversation (`t`) or a message (`m`). */
  readonly open?: { readonly kind: 't' | 'm'; readonly id: string };
  readonly query?: string;
}

export const route = shallowRef<Route>(read());
/** One pane at a time. */
export const isNarrow = matchMedia('(max-width: 720px)');
/** Whether the panel with the protocol is open. */
export const isPanelOpen = shallowRef(/\?(?:.*&)?protocol$/.test(location.hash));

addEventListener('popstate', () => {
  isGoingBack = false;
  route.value = read();
});

function read(): Route {
  const [path = '', query = ''] = location.hash.slice(1).split('?');
  const [, address = '', mailbox = '', kind, id] = path.split('/').map(decodePercents);
  const words = new URLSearchParams(query).get('q');
  return {
    address,
    mailbox: mailbox || 'INBOX',
    ...((kind === 't' || kind === 'm') && id && { open: { kind, id } }),
    ...(words && { query: words }),
  };
}

/** The part of the page's address behind `#`, for links. */
export function hrefOf({ address, mailbox, open, query }: Route): string {
  const parts = [address, mailbox, ...(open ? [open.kind, open.id] : [])];
  const search = query ? `?q=${encodeURIComponent(query)}` : '';
  return `#/${parts.map(encodeURIComponent).join('/')}${search}`;
}

/** State of an entry of the history that opened something: the one before it shows the list. */
const OPENED = 'opened';
/** The browser goes back some time after it was asked to. */
let isGoingBack = false;

/** Does something in the history once it is where it is going. */
function afterBack(act: () => void): void {
  if (isGoingBack) addEventListener('popstate', act, { once: true });
  else act();
}

/** @param how `replace` leaves no step for Back: one message after the other of an open list */
export function go(to: Route, how: 'push' | 'replace' = 'push'): void {
  if (isGoingBack) {
    afterBack(() => go(to, how));
    return;
  }
  const hash = hrefOf(to);
  if (hash === hrefOf(route.value) && location.hash !== '') return;
  if (how === 'push') history.pushState(to.open && OPENED, '', hash);
  else history.replaceState(to.open && history.state, '', hash);
  route.value = to;
}

/** Closes what is open, as Back does: it leaves no step that shows the same list again. */
export function closeOpen(): void {
  const { open, ...rest } = route.value;
  if (open && history.state === OPENED) {
    route.value = rest;
    isGoingBack = true;
    history.back();
  } else go(rest, 'replace');
}

/**
 * On a phone, where something covers the page: Back closes it, and leaves what is below as it is.
 *
 * @returns for when it is gone: takes away the step that it had in the history
 */
export function coverPage(close: () => void): () => void {
  let isCovered = false;
  const back = () => {
    isCovered = false;
    close();
  };
  if (isNarrow.matches)
    afterBack(() => {
      isCovered = true;
      history.pushState('covered', '');
      addEventListener('popstate', back, { once: true });
    });
  return () => {
    if (!isCovered) return;
    removeEventListener('popstate', back);
    isGoingBack = true;
    history.back();
  };
}
