import Image from "next/image";
import { thumbHashToDataURL } from "thumbhash";
import image from "../image.json";
import signed from "../signed.json";

export default function Page() {
  const { url, width, height, description, placeholder } = image;
  const blur = thumbHashToDataURL(Buffer.from(placeholder, "base64"));
  return (
    <main>
      <Image src={url} width={width} height={height} alt={description} sizes="50vw" placeholder="blur" blurDataURL={blur} />
      <Image src={signed.url} width={400} height={600} alt="Private" unoptimized />
    </main>
  );
}
