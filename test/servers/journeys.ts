/** The journeys of `test/journeys`, which are of one node on the embedded store, on other servers, as they are. */
import type { Group } from '../suites.ts';

/** What depends on where mailboxes are. */
const ofMailboxes = [
  'mail',
  'mail-append',
  'mail-content',
  'mail-drafts',
  'mail-lists',
  'realtime',
  'two-devices',
];

/**
 * What products, apps, their mail and strangers do. Those of one line share a process; no more, since their nodes run
 * until it ends.
 */
const onNodes = [
  ['mail', 'mail-append'],
  ['mail-content', 'mail-drafts', 'mail-lists'],
  ['realtime', 'two-devices'],
  ['domains', 'email-accounts'],
  ['errors', 'repeated-requests'],
  ['routes'],
  ['mail-changes', 'mail-search'],
  ['mail-send'],
  ['imap-model'],
  ['hostile-mail'],
  ['flood'],
];

const pathOf = (name: string) => `test/journeys/${name}.test.ts`;

/** Those that run on three nodes, which share a PostgreSQL. */
export const pathsOnNodes: readonly string[] = onNodes.flat().map(pathOf);

/** On every mail server, and on three nodes behind a load balancer that changes the node at every request. */
export function groupJourneys(): Group[] {
  const onMailServers = ['dovecot', 'cyrus', 'courier'].map((server) => ({
    name: `journeys on ${server}`,
    files: ofMailboxes.map(pathOf),
    environment: { TEST_MAIL_SERVER: server },
  }));
  const groupsOnNodes = onNodes.map((names) => ({
    name: `journeys on three nodes: ${names.join(', ')}`,
    files: names.map(pathOf),
    environment: { TEST_NODES: '3' },
  }));
  // What sending asks of a mail server is to append a copy, which other suites hold on each of them.
  const sending = {
    name: 'mail-send on dovecot',
    files: [pathOf('mail-send')],
    environment: { TEST_MAIL_SERVER: 'dovecot' },
  };
  return [...groupsOnNodes, ...onMailServers, sending];
}
