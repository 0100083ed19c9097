/** What this node reports to the others; much of it must be equal on all nodes. */
import type { NodeFacts, SigningKeys } from '../../platform/nodes/nodes.ts';
import { version } from '../../servers/api/api.ts';
import { type Config, digestOf, type Secrets } from '../config/config.ts';

/** Every value in force of each secret: the operator's, or the generated ones. */
export function keysInForce({ credentials, jwt }: Config, secrets: Secrets) {
  return {
    API_KEYS: credentials.apiKeys ?? secrets.apiKey,
    JWT_SECRET: jwt.secret ?? secrets.jwtSecret,
    MAILSERVER_WEBHOOK_SECRET:
      credentials.mailserverWebhookSecret ?? secrets.mailserverWebhookSecret,
    srsSecret: secrets.srsSecret,
    linkSecret: secrets.linkSecret,
  } as const;
}

/** The keys to sign and verify with, by their use. */
export interface Keys {
  readonly tokens: SigningKeys;
  readonly senders: SigningKeys;
  readonly links: SigningKeys;
}

export function signingKeysOf(config: Config, secrets: Secrets): Keys {
  const { JWT_SECRET, srsSecret, linkSecret } = keysInForce(config, secrets);
  return { tokens: JWT_SECRET, senders: srsSecret, links: linkSecret };
}

/** @param secrets of the database */
export function factsOf(config: Config, secrets: Secrets): NodeFacts {
  const { jwt, mailstore } = config;
  const digest = (secret: string) => digestOf(secrets, secret);
  const keys = Object.entries(keysInForce(config, secrets));
  return {
    version,
    hasEvents: config.redis !== undefined,
    sharesBodies: config.bodies.bucket !== undefined,
    lists: keys.map(([name]) => name),
    accepted: ['API_KEYS', 'MAILSERVER_WEBHOOK_SECRET'],
    settings: {
      MAIL_HOSTNAME: [config.mailHostname],
      SPF_INCLUDE: [config.spfInclude],
      ...Object.fromEntries(keys.map(([name, values]) => [name, values.map(digest)])),
      JWT_PUBLIC_KEY: [digest(jwt.publicKey ?? '')],
      JWT_JWKS_URL: [jwt.jwksUrl ?? ''],
      JWT_ISSUER: [jwt.issuer ?? ''],
      JWT_AUDIENCE: [jwt.audience ?? ''],
      JWT_ACCOUNT_CLAIM: [jwt.accountClaim],
      // With bodies in two places, the nodes would be two services.
      S3_URL: [config.bodies.bucket?.bucket ?? ''],
      MAILSTORE_URL: [
        mailstore.kind === 'imap' ? `${mailstore.host}:${mailstore.port}` : mailstore.kind,
      ],
    },
  };
}
