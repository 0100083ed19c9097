/**
 * A cookie (RFC 6265) that only this host gets. It is hidden from scripts, and is sent by pages of this site alone
 * (SameSite=Strict), so that no other site makes a browser use it. By HTTPS its name says that this host has set
 * it (`__Host-`), so that no other host of the domain can put its own in place.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Cookies of one request that are looked at. */
const COOKIES_READ = 5;

interface HostCookieOptions {
  readonly name: string;
  /** Where it is sent without TLS; by HTTPS a `__Host-` cookie is sent everywhere. */
  readonly path: string;
  readonly maxAgeSeconds: number;
  /** Where the service is reached: by HTTPS, the cookie is sent by HTTPS alone. */
  readonly publicUrl: () => string;
}

export class HostCookie {
  readonly #options: HostCookieOptions;

  constructor(options: HostCookieOptions) {
    this.#options = options;
  }

  /** What the cookies of the name have: several where they were set for several paths or hosts. */
  read(request: FastifyRequest): string[] {
    const start = `${this.#name(request)}=`;
    const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
    const values = pairs
      .filter((one) => one.startsWith(start))
      .map((one) => one.slice(start.length));
    return [...new Set(values)].filter((value) => value !== '').slice(0, COOKIES_READ);
  }

  /** @param value none removes the cookie */
  set(value: string, request: FastifyRequest, reply: FastifyReply): void {
    const { path, maxAgeSeconds } = this.#options;
    const isSecure = this.#isSecure(request);
    const fields = [
      `${this.#name(request)}=${value}`,
      // Browsers keep a `__Host-` cookie with this path alone.
      `Path=${isSecure ? '/' : path}`,
      `Max-Age=${value === '' ? 0 : maxAgeSeconds}`,
      'HttpOnly',
      'SameSite=Strict',
      ...(isSecure ? ['Secure'] : []),
    ];
    reply.header('set-cookie', fields.join('; '));
  }

  #isSecure({ protocol }: FastifyRequest): boolean {
    return protocol === 'https' || this.#options.publicUrl().startsWith('https:');
  }

  /** RFC 6265bis section 4.1.3.2; without TLS browsers keep no cookie of that name. */
  #name(request: FastifyRequest): string {
    const { name } = this.#options;
    return this.#isSecure(request) ? `__Host-${name}` : name;
  }
}
