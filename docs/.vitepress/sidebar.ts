import { referenceLinks } from './reference/pages.ts';

export interface SidebarPage {
  readonly text: string;
  readonly link: string;
  /** Shown below the page while it is open. */
  readonly items?: { text: string; link: string }[];
  readonly collapsed?: boolean;
}

export interface SidebarGroup {
  readonly text: string;
  readonly items: SidebarPage[];
}

const reference: SidebarGroup = {
  text: 'API reference',
  items: [{ text: 'Overview', link: '/reference/api' }, ...referenceLinks()],
};

/** The order of the pages: the site's sidebar, `llms.txt` and `llms-full.txt` follow it. */
export const sidebar: SidebarGroup[] = [
  {
    text: 'Start',
    items: [
      { text: 'What is Postroom?', link: '/what-is-postroom' },
      { text: 'Quickstart', link: '/quickstart' },
    ],
  },
  {
    text: 'Concepts',
    items: [
      { text: 'Domains and DNS', link: '/concepts/domains-and-dns' },
      { text: 'Accounts', link: '/concepts/accounts' },
      { text: 'Routes', link: '/concepts/routes' },
      { text: 'Sync', link: '/concepts/sync' },
      { text: 'Realtime', link: '/concepts/realtime' },
      { text: 'Mail server events', link: '/concepts/mailserver-events' },
    ],
  },
  {
    text: 'Guides',
    items: [
      { text: 'Build an app', link: '/guides/inbox-client' },
      { text: 'Change mail', link: '/guides/change-mail' },
      { text: 'Send mail', link: '/guides/send-mail' },
      { text: 'Search mail', link: '/guides/search' },
      { text: 'Threads', link: '/guides/threads' },
      { text: 'Receive webhooks', link: '/guides/webhooks' },
      { text: 'Follow everything in your backend', link: '/guides/events' },
      { text: 'Webmail for your users', link: '/guides/webmail' },
      { text: 'Mail programs', link: '/guides/mail-programs' },
      { text: 'Put Postroom in front of Dovecot', link: '/guides/imap-server' },
      { text: 'Delivery to your mail server', link: '/guides/imap-server-delivery' },
      { text: 'Quotas and usage', link: '/guides/quotas-and-usage' },
      { text: 'The console', link: '/guides/console' },
      { text: 'Where is the mail?', link: '/guides/find-mail' },
      { text: 'Go to production', link: '/guides/production' },
      { text: 'Several nodes', link: '/guides/several-nodes' },
      { text: 'Sizing', link: '/guides/sizing' },
      { text: 'Filter spam', link: '/guides/spam' },
      { text: 'Alerts', link: '/guides/alerts' },
      { text: 'API keys', link: '/guides/api-keys' },
      { text: 'Rotate keys', link: '/guides/rotate-keys' },
    ],
  },
  reference,
  {
    text: 'SDK reference',
    // One page for each entry point; `npm run sdk:build` writes them.
    items: ['backend', 'webhooks', 'mail', 'login', 'indexeddb', 'sqlite', 'file', 'testing'].map(
      (page) => ({
        text: page === 'backend' ? '@postroom/sdk' : `@postroom/sdk/${page}`,
        link: `/reference/sdk/${page}`,
      }),
    ),
  },
  {
    text: 'Reference',
    items: [
      { text: 'HTTP conventions', link: '/reference/http' },
      { text: 'Errors', link: '/reference/errors' },
      { text: "Operator's API", link: '/reference/operator-api' },
      { text: 'WebSocket', link: '/reference/websocket' },
      { text: 'Configuration', link: '/reference/configuration' },
      { text: 'The program postroom', link: '/reference/program' },
      { text: 'Limits', link: '/reference/limits' },
      { text: 'Metrics', link: '/reference/metrics' },
      { text: 'RFCs', link: '/rfc' },
      { text: 'Changelog', link: '/changelog' },
    ],
  },
];

/** The same groups, that of the API reference before the others. */
export const referenceFirst = [reference, ...sidebar.filter((group) => group !== reference)];
