// What the programs get from their environment.
declare const process: { env: Record<string, string>; exit(status: number): never };

export const baseUrl = process.env.BASE_URL;
export const token = process.env.TOKEN;

/** Returns the image as a file. */
export function file(name: string): File {
  const bytes = Uint8Array.from(atob(process.env.IMAGE_BASE64), (character) => character.charCodeAt(0));
  return new File([bytes], name, { type: "image/png" });
}

/** Throws unless `condition` holds. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** Returns the status of a GET request without a token. */
export async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status;
}

/** Runs a program, which ends with status 1 if it throws. */
export function run(program: () => Promise<void>): void {
  program().catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
}
