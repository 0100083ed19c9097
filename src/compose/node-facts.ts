/** What this node says of itself to the others, of which much has to be equal. */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Config, Secrets } from '../config/config.ts';
import type { NodeFacts } from '../nodes/nodes.ts';

const { version } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);

/** @param secrets those of the database; their digests are keyed with one of them */
export function factsOf(config: Config, secrets: Secrets): NodeFacts {
  const { credentials, jwt, mailstore } = config;
  const digest = (secret: string) =>
    `#${createHmac('sha256', secrets.linkSecret).update(secret).digest('base64url')}`;
  const hookSecret = credentials.mailserverWebhookSecret ?? secrets.mailserverWebhookSecret;
  return {
    version,
    hasEvents: config.redis !== undefined,
    settings: {
      MAIL_HOSTNAME: [config.mailHostname],
      SPF_INCLUDE: [config.spfInclude],
      JWT_SECRET: [digest(jwt.secret ?? secrets.jwtSecret)],
      JWT_PUBLIC_KEY: [digest(jwt.publicKey ?? '')],
      JWT_JWKS_URL: [jwt.jwksUrl ?? ''],
      JWT_ACCOUNT_CLAIM: [jwt.accountClaim],
      MAILSERVER_WEBHOOK_SECRET: [digest(hookSecret)],
      API_KEYS: (credentials.apiKeys ?? [secrets.apiKey]).map(digest),
      // Two places that mail is kept in would be two services.
      S3_URL: [config.bodies.bucket?.bucket ?? ''],
      MAILSTORE_URL: [
        mailstore.kind === 'imap' ? `${mailstore.host}:${mailstore.port}` : mailstore.kind,
      ],
    },
  };
}
