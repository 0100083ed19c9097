/** The commands that are known, by name and by the state of the session (RFC 9051 section 6). */
import { append, replacing } from './append.ts';
import { close, expunging, relocating } from './copy-move.ts';
import { create, remove, rename, subscribe, unsubscribe } from './edit-mailboxes.ts';
import { fetching } from './fetch.ts';
import { idle, logout, noop } from './idle.ts';
import { list, lsub, namespace } from './list.ts';
import { authenticate, capability, id, login, startTls } from './log-in.ts';
import { notify } from './notify.ts';
import { getQuota, getQuotaRoot, setQuota } from './quota.ts';
import { searching } from './search.ts';
import { enable, examine, select, status, unselect } from './select.ts';
import type { Command, State } from './session.ts';
import { sorting } from './sort.ts';
import { storing } from './store.ts';
import { threading } from './thread.ts';

const anywhere = { CAPABILITY: capability, NOOP: noop, LOGOUT: logout, ID: id };

const beforeLogin = { STARTTLS: startTls, AUTHENTICATE: authenticate, LOGIN: login };

const afterLogin = {
  ENABLE: enable,
  SELECT: select,
  EXAMINE: examine,
  CREATE: create,
  DELETE: remove,
  RENAME: rename,
  SUBSCRIBE: subscribe,
  UNSUBSCRIBE: unsubscribe,
  LIST: list,
  LSUB: lsub,
  NAMESPACE: namespace,
  STATUS: status,
  APPEND: append,
  GETQUOTA: getQuota,
  GETQUOTAROOT: getQuotaRoot,
  SETQUOTA: setQuota,
  IDLE: idle,
  NOTIFY: notify,
};

/** Commands about messages of the mailbox, which they name by their sequence numbers, or after `UID` by their UIDs. */
const ofMessages = {
  EXPUNGE: expunging,
  SEARCH: searching,
  REPLACE: replacing,
  SORT: sorting,
  THREAD: threading,
  FETCH: fetching,
  STORE: storing,
  COPY: (isByUid: boolean) => relocating('copy', isByUid),
  MOVE: (isByUid: boolean) => relocating('move', isByUid),
};

type Commands = Readonly<Record<string, Command>>;

const inMailbox: Commands = {
  CHECK: noop,
  CLOSE: close,
  UNSELECT: unselect,
  ...Object.fromEntries(
    Object.entries(ofMessages).flatMap(([name, commandBy]) => [
      [name, commandBy(false)],
      [`UID ${name}`, commandBy(true)],
    ]),
  ),
};

export const commands: Commands = { ...anywhere, ...beforeLogin, ...afterLogin, ...inMailbox };

export const commandsIn: Readonly<Record<State, Commands>> = {
  'not authenticated': { ...anywhere, ...beforeLogin },
  authenticated: { ...anywhere, ...afterLogin },
  selected: { ...anywhere, ...afterLogin, ...inMailbox },
};
