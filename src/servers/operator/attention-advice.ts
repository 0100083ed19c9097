/** What to do about what needs an operator: a sentence for each rule, for the console and the program. */

export const ADVICE = {
  database_down: 'Look at the database server and at DATABASE_URL; "postroom doctor" tries it.',
  nodes_silent: 'Look at their machines, and start the nodes again.',
  disk_full: 'Remove what else is on the disk, or make the disk larger.',
  deliveries_late: 'Hold or drop what floods the queue, or give the service more processors.',
  mail_deferred:
    'Look for "deferred" in the log; "postroom doctor" tries disk, database and bucket.',
  bucket_down:
    'Look at S3_URL and at the bucket, or at the disk and the owner of DATA_DIR/bodies; "postroom doctor" tries it.',
  domains_lapsed:
    'Tell their owners to publish the records again; each domain shows what is missing.',
  domains_cannot_send: 'Tell their owners to publish the DKIM record that the domain shows.',
  bounces_too_many: 'Suspend the accounts whose mail bounces if they send spam.',
  bounces_many: 'Look at the accounts whose mail bounces, and ask their owners what they send.',
  bodies_lost: 'Bring the bodies back from a backup.',
  block_listed:
    'Find the sender of the mail for which this server, or a domain in the mail, was listed. Then ask the keepers of the list to remove it.',
  senders_odd: 'Ask the owner of the account; if it is abused, suspend it and drop what waits.',
  mailboxes_full: 'Let their owners delete mail, or raise the quota.',
  receivers_failing: 'Tell whoever runs the receiver. Once it works, retry what waits for it.',
  backup_old: 'Find out why the nightly run failed, and make one: "postroom backup FOLDER".',
  certificate_ends: 'Renew it in the files of TLS_CERT and TLS_KEY: no restart is needed.',
  certificate_broken: 'Put a certificate and its key there; "postroom doctor" says what is wrong.',
  versions_differ: 'Finish the upgrade.',
  clocks_differ:
    'Let NTP set the clocks of both machines; "postroom doctor" on each node compares them.',
  relay_down: 'Look at SMTP_RELAY_URL and at the relay; "postroom doctor" signs in to it.',
  redis_down: 'Look at REDIS_URL and at Redis; "postroom doctor" tries it.',
  spam_filter_down: 'Look at RSPAMD_URL and at Rspamd.',
  sender_checks_off: 'Look at the resolver and at DNS_SERVERS; "postroom doctor" asks it.',
  search_behind: 'It catches up by itself; if it does not, look for errors in the log.',
  database_log_grows: 'End what reads the database for so long.',
  overloaded: 'Find out who causes the work; if it stays, take a faster processor or another node.',
  deliveries_held: 'Release them, or drop them.',
  domains_pending: 'Remind their owners of the records, or delete the domains.',
} as const;

export type RuleName = keyof typeof ADVICE;
