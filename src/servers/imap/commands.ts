/** The commands that are known, by name and by the state of the session (RFC 9051 section 6). */
import { append, replace, uidReplace } from './append.ts';
import { close, copy, expunge, move, uidCopy, uidExpunge, uidMove } from './copy-move.ts';
import { create, remove, rename, subscribe, unsubscribe } from './edit-mailboxes.ts';
import { fetch, uidFetch } from './fetch.ts';
import { idle, logout, noop } from './idle.ts';
import { list, lsub, namespace } from './list.ts';
import { authenticate, capability, id, login, startTls } from './log-in.ts';
import { notify } from './notify.ts';
import { getQuota, getQuotaRoot, setQuota } from './quota.ts';
import { search, uidSearch } from './search.ts';
import { enable, examine, select, status, unselect } from './select.ts';
import type { Command, State } from './session.ts';
import { sort, uidSort } from './sort.ts';
import { store, uidStore } from './store.ts';
import { thread, uidThread } from './thread.ts';

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

const inMailbox = {
  CHECK: noop,
  CLOSE: close,
  UNSELECT: unselect,
  EXPUNGE: expunge,
  SEARCH: search,
  REPLACE: replace,
  SORT: sort,
  THREAD: thread,
  FETCH: fetch,
  STORE: store,
  COPY: copy,
  MOVE: move,
  'UID EXPUNGE': uidExpunge,
  'UID SEARCH': uidSearch,
  'UID REPLACE': uidReplace,
  'UID SORT': uidSort,
  'UID THREAD': uidThread,
  'UID FETCH': uidFetch,
  'UID STORE': uidStore,
  'UID COPY': uidCopy,
  'UID MOVE': uidMove,
};

type Commands = Readonly<Record<string, Command>>;

export const commands: Commands = { ...anywhere, ...beforeLogin, ...afterLogin, ...inMailbox };

export const commandsIn: Readonly<Record<State, Commands>> = {
  'not authenticated': { ...anywhere, ...beforeLogin },
  authenticated: { ...anywhere, ...afterLogin },
  selected: { ...anywhere, ...afterLogin, ...inMailbox },
};
