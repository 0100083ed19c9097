import { fileURLToPath } from 'node:url';

const pathOf = (name: string) => fileURLToPath(new URL(`certificate/${name}.pem`, import.meta.url));

/**
 * Settings with a certificate for `mail.test` that nobody has signed, valid until 2126. To make one
 * takes a start a third of a second. The key is public: it is for tests alone.
 */
export const CERTIFICATE = { TLS_CERT: pathOf('cert'), TLS_KEY: pathOf('key') };

/** Settings with which the service makes its own. */
export const NO_CERTIFICATE = { TLS_CERT: '', TLS_KEY: '' };
