//! Damage to example streams, the same in every run.

/// Numbers that look random and are the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }
}

/// A stream with some damage: bytes changed, pieces cut out, doubled, moved
/// or taken from another stream.
pub fn damaged(stream: &str, other: &str, dice: &mut Dice) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "null",
        "{}",
        "[]",
        "\"\"",
        "-1",
        "1e999",
        "\"\\ud800\"",
        "true",
        "\\",
        "\n\n",
        "\"done\"",
        "18446744073709551616",
    ];
    let mut bytes = stream.as_bytes().to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len() + 1);
        let to = (at + dice.roll(40)).min(bytes.len());
        match dice.roll(6) {
            0 => drop(bytes.splice(at..to, [])),
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.roll(256) as u8;
                }
            }
            2 => drop(bytes.splice(at..at, WORDS[dice.roll(WORDS.len())].bytes())),
            3 => {
                let piece = bytes[at..to].to_vec();
                let place = dice.roll(bytes.len() + 1);
                drop(bytes.splice(place..place, piece));
            }
            4 => {
                let from = dice.roll(other.len());
                let piece = &other.as_bytes()[from..(from + dice.roll(400)).min(other.len())];
                drop(bytes.splice(at..to, piece.iter().copied()));
            }
            _ => bytes = damaged_events(&bytes, dice),
        }
    }
    bytes
}

/// Whole events dropped, doubled or moved; a value replaced by another.
fn damaged_events(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut events: Vec<&str> = text.split("\n\n").collect();
    let (from, to) = (dice.roll(events.len()), dice.roll(events.len()));
    match dice.roll(3) {
        0 => drop(events.remove(from)),
        1 => events.insert(to, events[from]),
        _ => events.swap(from, to),
    }
    events.join("\n\n").into_bytes()
}
