import { ConfigError } from '../config/config.ts';

/** Errors of an address or port that cannot be used. */
const PORT_ERRORS = new Set(['EADDRINUSE', 'EACCES', 'EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);

/** The operator has to fix a port or an address that cannot be used: one line instead of a stack. */
export function explainPort(setting: string, host: string, port: number) {
  const hostSetting = setting.replace(/^(IMAP|SUBMISSION)S/, '$1').replace(/PORT$/, 'HOST');
  return (error: unknown): never => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
    if (!code || !PORT_ERRORS.has(code)) throw error;
    const lines: Readonly<Record<string, string>> = {
      EADDRINUSE: `${setting}: ${host}:${port} is taken: is another Postroom running? If not, set ${setting} to a free port`,
      EACCES: `${setting}: the user of this process may not listen on port ${port}: below 1024 it needs CAP_NET_BIND_SERVICE, as the systemd unit gives it; or set another port`,
    };
    const line =
      lines[code] ??
      `${hostSetting}: ${host} is no address of this machine (${code}): set one that it has itself, or 0.0.0.0 for all of them`;
    throw new ConfigError([line], { cause: error });
  };
}
