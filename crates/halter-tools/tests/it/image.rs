//! `image`.

use crate::support::{PNG, Workspace};
use halter_protocol::{Action, ContentPart, MediaFormat, ToolCall, ToolErrorCode, ToolResult};
use halter_tools::PolicySettings;
use halter_tools::limits::{
    IMAGE_DECODED_BYTES, IMAGE_FILE_BYTES, IMAGE_PIXELS, IMAGE_RESULT_SIDE_PIXELS,
};
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use serde_json::{Value, json};
use std::io::Cursor;

/// A picture whose pixels say where they are.
fn picture(width: u32, height: u32) -> DynamicImage {
    let pixel = |x: u32, y: u32| Rgba([(x * 7) as u8, (y * 11) as u8, 0, 255]);
    RgbaImage::from_fn(width, height, pixel).into()
}

fn file(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut data = Cursor::new(Vec::new());
    let solid = DynamicImage::from(picture.to_rgb8());
    let picture = match format {
        ImageFormat::Jpeg => &solid,
        _ => picture,
    };
    picture.write_to(&mut data, format).unwrap();
    data.into_inner()
}

/// A PNG file that says it has another size than it has.
fn lying_png(width: u32, height: u32) -> Vec<u8> {
    changed_png(width, height, PNG[24], PNG[25])
}

fn changed_png(width: u32, height: u32, bits: u8, color: u8) -> Vec<u8> {
    let mut data = PNG.to_vec();
    data[16..20].copy_from_slice(&width.to_be_bytes());
    data[20..24].copy_from_slice(&height.to_be_bytes());
    data[24..26].copy_from_slice(&[bits, color]);
    let checked = crc32(&data[12..29]);
    data[29..33].copy_from_slice(&checked.to_be_bytes());
    data
}

fn crc32(data: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in data {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
        }
    }
    !sum
}

/// The facts, and the picture that is shown.
async fn shown(workspace: &Workspace, arguments: Value) -> (Value, Vec<u8>) {
    let result = workspace.result("image", arguments).await.unwrap();
    let ToolResult::Parts { parts } = result else {
        panic!("no parts: {result:?}");
    };
    let [ContentPart::Text { text }, part] = parts.as_slice() else {
        panic!("not facts and a picture: {parts:?}");
    };
    let (_, data) = part.media().unwrap();
    (serde_json::from_str(text).unwrap(), data.to_vec())
}

fn decoded(data: &[u8]) -> DynamicImage {
    image::load_from_memory(data).unwrap()
}

#[tokio::test]
async fn every_format_is_known_and_made_of_every_other() {
    let workspace = Workspace::new();
    let formats = [
        ("png", ImageFormat::Png),
        ("jpeg", ImageFormat::Jpeg),
        ("gif", ImageFormat::Gif),
        ("webp", ImageFormat::WebP),
        ("bmp", ImageFormat::Bmp),
    ];
    for (from, format) in formats {
        workspace.put("picture", file(&picture(5, 3), format));
        let info = json!({"action": "info", "path": "picture"});
        let facts = workspace.ok("image", info).await;
        assert_eq!(
            (&facts["format"], &facts["width"], &facts["height"]),
            (&json!(from), &json!(5), &json!(3))
        );
        for (to, format) in formats {
            let arguments = json!({
                "action": "convert", "path": "picture", "output_path": format!("made/{from}.{to}"),
            });
            let facts = workspace.ok("image", arguments).await;
            let made = std::fs::read(workspace.dir().join(format!("made/{from}.{to}"))).unwrap();
            assert_eq!(image::guess_format(&made).unwrap(), format, "{from} {to}");
            assert_eq!(facts["bytes"], made.len());
            assert_eq!((decoded(&made).width(), decoded(&made).height()), (5, 3));
        }
    }
}

#[tokio::test]
async fn an_image_is_shown_as_it_is_where_it_can_be() {
    let workspace = Workspace::new();
    workspace.put("picture.png", PNG);
    let (facts, data) = shown(&workspace, json!({"action": "read", "path": "picture.png"})).await;
    assert_eq!(data, PNG);
    assert_eq!(facts["width"], 3);
    assert_eq!(facts["shown_as"], Value::Null);

    let bmp = file(&picture(5, 3), ImageFormat::Bmp);
    workspace.put("picture.bmp", bmp);
    let (facts, data) = shown(&workspace, json!({"action": "read", "path": "picture.bmp"})).await;
    assert_eq!(facts["shown_as"], "png of 5x3 pixels");
    assert_eq!(decoded(&data).to_rgba8(), picture(5, 3).to_rgba8());
}

#[tokio::test]
async fn what_is_too_large_to_be_shown_is_shown_smaller() {
    let large = file(&picture(2_100, 30), ImageFormat::Bmp);
    let workspace = Workspace::with_settings(PolicySettings {
        max_read_bytes: 20_000,
        ..PolicySettings::default()
    });
    workspace.put("large.bmp", &large);
    let (facts, data) = shown(&workspace, json!({"action": "read", "path": "large.bmp"})).await;
    assert!(data.len() <= 20_000, "{}", data.len());
    assert_eq!(facts["width"], 2_100);
    let made = decoded(&data);
    assert!(made.width() <= 2_000 && made.height() >= 1);

    let workspace = Workspace::with_settings(PolicySettings {
        max_read_bytes: 10,
        ..PolicySettings::default()
    });
    workspace.put("picture.png", PNG);
    let read = json!({"action": "read", "path": "picture.png"});
    let message = workspace.failure("image", read).await;
    assert!(message.contains("no smaller form"), "{message}");
    let crop = json!({"action": "crop", "path": "picture.png", "width": 1, "height": 1});
    let message = workspace.failure("image", crop).await;
    assert!(message.contains("10 can be shown"), "{message}");
}

#[tokio::test]
async fn a_part_is_cut_out_where_it_was_asked_for() {
    let workspace = Workspace::new();
    workspace.put("picture.png", file(&picture(20, 10), ImageFormat::Png));
    let crop = |x, y, width, height| {
        json!({
            "action": "crop", "path": "picture.png", "x": x, "y": y,
            "width": width, "height": height,
        })
    };
    let (facts, data) = shown(&workspace, crop(15, 4, 5, 6)).await;
    assert_eq!((&facts["width"], &facts["height"]), (&json!(5), &json!(6)));
    assert_eq!(decoded(&data), picture(20, 10).crop_imm(15, 4, 5, 6));

    for arguments in [
        crop(16, 4, 5, 6),
        crop(15, 5, 5, 6),
        crop(u32::MAX, 0, 1, 1),
    ] {
        let message = workspace.failure("image", arguments).await;
        assert!(message.contains("not inside of the image, which has 20x10"));
    }
}

#[tokio::test]
async fn a_picture_is_scaled_as_asked_or_in_its_proportions() {
    let workspace = Workspace::new();
    let plain = RgbaImage::from_pixel(40, 20, Rgba([9, 90, 200, 255]));
    workspace.put("picture.png", file(&plain.into(), ImageFormat::Png));
    for (size, expected) in [
        (json!({"width": 10}), (10, 5)),
        (json!({"height": 40}), (80, 40)),
        (json!({"width": 7, "height": 9}), (7, 9)),
    ] {
        for filter in ["nearest", "triangle", "catmullrom", "gaussian", "lanczos3"] {
            let mut arguments = json!({"action": "resize", "path": "picture.png"});
            arguments["filter"] = filter.into();
            let fields = size.as_object().unwrap().clone();
            arguments.as_object_mut().unwrap().extend(fields);
            let (_, data) = shown(&workspace, arguments).await;
            let made = decoded(&data).to_rgba8();
            assert_eq!(made.dimensions(), expected);
            assert_eq!(made.get_pixel(3, 3), &Rgba([9, 90, 200, 255]), "{filter}");
        }
    }
}

#[tokio::test]
async fn a_picture_that_was_stored_turned_is_used_as_it_is_looked_at() {
    let upright = file(&picture(30, 20), ImageFormat::Jpeg);
    // EXIF with the one entry "orientation: 6", a quarter turn.
    let exif = b"\xff\xe1\0\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\
        \0\0\0\0";
    let mut turned = upright[..2].to_vec();
    turned.extend(exif);
    turned.extend(&upright[2..]);
    let workspace = Workspace::new();
    workspace.put("photo.jpg", turned);
    let info = json!({"action": "info", "path": "photo.jpg"});
    let facts = workspace.ok("image", info).await;
    assert_eq!(
        (&facts["width"], &facts["height"]),
        (&json!(20), &json!(30))
    );
    let convert = json!({"action": "convert", "path": "photo.jpg", "format": "png"});
    let (_, data) = shown(&workspace, convert).await;
    assert_eq!(decoded(&data).width(), 20);
}

#[tokio::test]
async fn a_file_that_stands_for_a_huge_picture_is_refused() {
    let workspace = Workspace::new();
    for (width, height) in [(60_000, 60_000), (IMAGE_PIXELS as u32 / 1_000 + 1, 1_000)] {
        workspace.put("bomb.png", lying_png(width, height));
        let convert = json!({"action": "convert", "path": "bomb.png", "format": "jpeg"});
        let message = workspace.failure("image", convert).await;
        assert!(message.contains("bomb.png"), "{message}");
        let said = message.contains("50000000 pixels") || message.contains("larger than");
        assert!(said, "{message}");
    }
    // At the limit it is decoded, and found to hold less than it says.
    workspace.put("bomb.png", lying_png(IMAGE_PIXELS as u32 / 1_000, 1_000));
    let convert = json!({"action": "convert", "path": "bomb.png", "format": "jpeg"});
    let message = workspace.failure("image", convert).await;
    assert!(message.contains("damaged png"), "{message}");

    let huge = workspace.put("huge.png", PNG);
    let huge = std::fs::File::options().write(true).open(huge).unwrap();
    huge.set_len(IMAGE_FILE_BYTES + 1).unwrap();
    for action in ["info", "read"] {
        let arguments = json!({"action": action, "path": "huge.png"});
        let message = workspace.failure("image", arguments).await;
        assert!(message.contains("over the 33554432"), "{message}");
    }
    huge.set_len(IMAGE_FILE_BYTES).unwrap();
    let arguments = json!({"action": "info", "path": "huge.png"});
    workspace.ok("image", arguments).await;

    workspace.put("picture.png", PNG);
    let resize =
        json!({"action": "resize", "path": "picture.png", "width": 8_000, "height": 8_000});
    let message = workspace.failure("image", resize).await;
    assert!(message.contains("choose a smaller size"), "{message}");
}

/// Deep colours take more than their number of pixels tells.
#[tokio::test]
async fn a_picture_that_takes_too_much_memory_is_refused() {
    const BYTES_OF_A_PIXEL: u64 = 8;
    let workspace = Workspace::new();
    let height = u32::try_from(IMAGE_DECODED_BYTES / BYTES_OF_A_PIXEL / 1_000).unwrap();
    assert!(u64::from(height + 1) * 1_000 <= IMAGE_PIXELS, "few enough");
    let convert = json!({"action": "convert", "path": "deep.png", "format": "jpeg"});
    // RGBA in 16 bits.
    workspace.put("deep.png", changed_png(1_000, height + 1, 16, 6));
    let message = workspace.failure("image", convert.clone()).await;
    let expected = format!("{IMAGE_DECODED_BYTES} bytes are the most");
    assert!(message.contains(&expected), "{message}");
    // At the limit it is decoded, and found to hold less than it says.
    workspace.put("deep.png", changed_png(1_000, height, 16, 6));
    let message = workspace.failure("image", convert).await;
    assert!(message.contains("damaged png"), "{message}");
}

#[tokio::test]
async fn the_sides_of_a_result_have_a_limit() {
    let workspace = Workspace::new();
    let most = IMAGE_RESULT_SIDE_PIXELS;
    workspace.put("wide.png", file(&picture(100, 2), ImageFormat::Png));
    let resize = |size: Value| {
        let mut arguments = json!({
            "action": "resize", "path": "wide.png", "output_path": "made.png",
        });
        let size = size.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(size);
        arguments
    };
    for side in ["width", "height"] {
        let beyond = resize(json!({side: most + 1}));
        let code = ToolErrorCode::InvalidArguments;
        workspace.error("image", beyond, code).await;
    }
    // The side that follows the other is held to it too.
    let message = workspace
        .failure("image", resize(json!({"height": most / 50 + 1})))
        .await;
    assert!(
        message.contains(&format!("over the {most} of a side")),
        "{message}"
    );
    assert!(!workspace.dir().join("made.png").exists());
    let made = workspace
        .ok("image", resize(json!({"height": most / 50})))
        .await;
    assert_eq!(
        (&made["width"], &made["height"]),
        (&json!(most), &json!(most / 50))
    );
}

#[tokio::test]
async fn what_is_no_image_is_said_to_be_none() {
    let workspace = Workspace::new();
    for (content, expected) in [
        (&b"words"[..], "no image of a known format"),
        (b"", "no image of a known format"),
        (&PNG[..30], "damaged png"),
        (b"%PDF-1.4\n", "no image of a known format"),
        (b"II*\0\x08\0\0\0", "no image of a known format"),
    ] {
        workspace.put("thing", content);
        for action in ["info", "read"] {
            let arguments = json!({"action": action, "path": "thing"});
            let message = workspace.failure("image", arguments).await;
            assert!(message.contains(expected), "{message}");
        }
    }
}

#[tokio::test]
async fn parameters_that_would_do_nothing_are_refused() {
    let workspace = Workspace::new();
    workspace.put("a.png", PNG);
    for (arguments, expected) in [
        (
            json!({"action": "crop", "width": 1}),
            "needs `width` and `height`",
        ),
        (
            json!({"action": "resize"}),
            "needs `width`, `height` or both",
        ),
        (json!({"action": "convert"}), "needs `format`"),
        (
            json!({"action": "info", "width": 3}),
            "are for `crop` and `resize`",
        ),
        (
            json!({"action": "read", "output_path": "b.png"}),
            "`output_path` is for",
        ),
        (
            json!({"action": "convert", "format": "bmp"}),
            "models do not look at BMP",
        ),
        (
            json!({"action": "convert", "output_path": "b.tiff"}),
            "set `format` to one of png, jpeg, gif, webp, bmp",
        ),
        (
            json!({"action": "convert", "output_path": "b.png", "format": "gif"}),
            "make them agree",
        ),
    ] {
        let mut arguments = arguments;
        arguments["path"] = "a.png".into();
        let message = workspace.failure("image", arguments).await;
        assert!(message.contains(expected), "{message}");
    }
    assert!(!workspace.dir().join("b.png").exists());
}

#[tokio::test]
async fn a_file_is_replaced_only_while_it_is_as_it_was_seen() {
    let workspace = Workspace::new();
    workspace.put("a.png", file(&picture(8, 8), ImageFormat::Png));
    let in_place = json!({
        "action": "resize", "path": "a.png", "output_path": "a.png", "width": 4,
    });
    workspace.ok("image", in_place).await;
    let made = std::fs::read(workspace.dir().join("a.png")).unwrap();
    assert_eq!(decoded(&made).width(), 4);

    workspace.put("notes.png", PNG);
    let read = json!({"action": "read", "path": "notes.png"});
    shown(&workspace, read).await;
    workspace.put("notes.png", [PNG, b"more"].concat());
    let over = json!({"action": "convert", "path": "a.png", "output_path": "notes.png"});
    let message = workspace.failure("image", over).await;
    assert!(message.contains("has changed since"), "{message}");
}

#[tokio::test]
async fn nothing_outside_is_read_or_written() {
    let workspace = Workspace::new();
    workspace.put("a.png", PNG);
    std::fs::write(workspace.outside().join("secret.png"), PNG).unwrap();
    for arguments in [
        json!({"action": "info", "path": "../secret.png"}),
        json!({"action": "convert", "path": "a.png", "output_path": "../made.png"}),
    ] {
        workspace
            .error("image", arguments, ToolErrorCode::PolicyDenied)
            .await;
    }
    assert!(!workspace.outside().join("made.png").exists());

    let call = ToolCall {
        id: "call".into(),
        name: "image".into(),
        arguments: json!({"action": "convert", "path": "a.png", "output_path": "b.gif"}),
    };
    assert_eq!(
        workspace.tools.actions(&call).unwrap(),
        [
            Action::Read {
                path: "a.png".into()
            },
            Action::Write {
                path: "b.gif".into()
            },
        ]
    );
}

#[tokio::test]
async fn a_cancelled_call_writes_nothing() {
    let convert = json!({"action": "convert", "path": "a.png", "output_path": "b.gif"});
    let workspace = Workspace::new().cancelling_at_door_use(1);
    workspace.put("a.png", PNG);
    let code = ToolErrorCode::Cancelled;
    workspace.error("image", convert, code).await;
    assert!(!workspace.dir().join("b.gif").exists());
}

#[tokio::test]
async fn what_is_shown_is_what_models_take() {
    let workspace = Workspace::new();
    for (name, format) in [("a.gif", ImageFormat::Gif), ("a.webp", ImageFormat::WebP)] {
        workspace.put(name, file(&picture(9, 9), format));
        let crop = json!({"action": "crop", "path": name, "width": 3, "height": 3});
        let (facts, data) = shown(&workspace, crop).await;
        let found = MediaFormat::detect(&data).unwrap();
        let named = format!("image/{}", facts["format"].as_str().unwrap());
        assert_eq!(found.media_type(), named);
    }
}
