/**
 * Sockets and addresses, in both directions.
 *
 * SMTP and LMTP as a client: a pure protocol (`smtp-client.ts`) over a socket and its clocks
 * (`smtp-connection.ts`); replies and dots for both sides (`smtp-text.ts`).
 *
 * Clients that come to us: where a request comes from, under which name a client is counted, and what
 * it holds (`clients.ts`); how often it may do something (`limits.ts`); how HTTP requests are refused
 * (`http.ts`).
 *
 * Addresses we connect to when somebody else named the host: webhooks, and mail exchangers found in
 * DNS. A URL or an MX record must not make us talk to our own network. The judgement is made where a
 * connection is made, on the very address that it goes to ({@link guardLookup}): a name that is
 * judged first and resolved again later could have changed in between. Owns nothing in storage.
 */

export {
  addressOf,
  ClientShares,
  clientKey,
  isLoopback,
  type NetworkTest,
  testNetworks,
} from './clients.ts';
export {
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
  type LimitOptions,
  limitBy,
  limitInMemory,
  type OpenLimit,
  runInTurn,
  type SharedPlaces,
  type Usage,
} from './limits.ts';
export { isWritablePath, type Login, type RecipientResult, sizeLimit } from './smtp-client.ts';
export { type ConnectionTimeouts, type Endpoint, SmtpConnection } from './smtp-connection.ts';
export {
  DotTransparency,
  enhancedOf,
  formatReply,
  isFinalRefusal,
  type Reply,
  SmtpFailure,
} from './smtp-text.ts';
