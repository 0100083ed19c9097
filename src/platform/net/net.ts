/**
 * Sockets and addresses, in both directions.
 *
 * Clients that connect to us: where a request comes from, under which key a client is counted, and what it holds
 * (`clients.ts`, `listener.ts`); how often it may do something (`limits.ts`), and its turns at what is scarce, also at the
 * event loop (`turns.ts`); how HTTP requests are refused (`http.ts`).
 *
 * Addresses that we connect to when somebody else named the host: webhooks, and mail exchangers from DNS. A URL or
 * an MX record must not make us connect to our own network. The check is made at the connection, on the very address
 * that it uses ({@link guardLookup}): a name that is checked first and resolved again later could have changed in
 * between. Stores nothing.
 */

export {
  addressOf,
  ClientShares,
  clientKey,
  isLoopback,
  type NetworkTest,
  networkKey,
  StrangerShares,
  testNetworks,
} from './clients.ts';
export {
  type Admission,
  acceptWeight,
  answerOnSocket,
  answerProblem,
  bearerChallenge,
  countField,
  ERRORS_PAGE,
  readBearer,
  requestIdOf,
} from './http.ts';
export {
  type AddressFilter,
  type AddressRecords,
  AddressRefused,
  createAddressFilter,
  createHostResolver,
  guardLookup,
  type ResolveHost,
} from './judge-address.ts';
export {
  type Limit,
  limitBy,
  limitInMemory,
  type OpenLimit,
  type SharedSlots,
  type Usage,
} from './limits.ts';
export { type Certificate, Listener, Wire } from './listener.ts';
export { enterTurn, inTime, type Party, runInTurn, Turns, takeTurn } from './turns.ts';
