/** The journeys of `test/journeys` that run on real servers too. */

/** What depends on where mailboxes are. */
export const onMailServers = [
  'mail.test.ts',
  'mail-append.test.ts',
  'mail-content.test.ts',
  'mail-lists.test.ts',
  'realtime.test.ts',
  'two-devices.test.ts',
];

/** All that products, apps, their mail and strangers do: on three nodes, which share a PostgreSQL. */
export const onNodes = [
  ...onMailServers,
  'domains.test.ts',
  'email-accounts.test.ts',
  'errors.test.ts',
  'flood.test.ts',
  'hostile-mail.test.ts',
  'inbox-client.test.ts',
  'mail-changes.test.ts',
  'mail-search.test.ts',
  'mail-send.test.ts',
  'repeated-requests.test.ts',
  'routes.test.ts',
];
