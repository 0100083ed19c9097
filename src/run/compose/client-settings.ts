/** What mail programs are told of this server. */
import type { ClientSettings } from '../../servers/api/api.ts';
import type { Config } from '../config/config.ts';

/** What programs are told to type in: the ports as they are set. */
export function clientSettings(
  { mailHostname: hostname, imap, submission }: Config,
  publicUrl: () => string,
): ClientSettings {
  const ports = {
    imaps: imap.tlsPort,
    imap: imap.port,
    submissions: submission.tlsPort,
    submission: submission.port,
  };
  return { hostname, ports, publicUrl };
}
