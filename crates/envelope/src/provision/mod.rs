//! Limits and allowed sizes of pools and volumes, and whether they fit together.

use crate::limits::OPERATIONS;
use crate::source::{A2, A3, A9, F3, OWN, S1};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Declared, Iops, Level, Limits, Owner, Pool, PoolSettings,
    Profile, Provider, Qos, Range, Refusal, Resize, Source, Target, Totals, Volume, VolumeSettings, anf,
    filestore, gcnv, own,
};

/// Growth of a large volume of ANF without a ticket, in percent of the smallest size it ever had [A3].
const LARGE_GROWTH_PERCENT: u64 = 30;

impl Pool {
    pub fn new(level: Level, size: Bytes) -> Self {
        Self { level, size, settings: PoolSettings::default() }
    }

    pub fn qos(&self) -> Qos {
        self.settings.qos.unwrap_or(self.level.info().qos[0])
    }

    /// An error if such a pool cannot exist. If [`Limits::owner`] is [`Owner::Volume`], the volumes share
    /// these limits; the pool itself is not limited.
    pub fn limits(&self) -> Result<Limits, Refusal> {
        self.check_settings()?;
        if let Some(bands) = self.sizes() {
            bands.check(&format!("{}: a pool", self.level), self.size)?;
        }
        match self.level.info().provider {
            Provider::Anf => anf::pool(self),
            Provider::Gcnv => gcnv::pool(self),
            Provider::Filestore => filestore::instance(self),
            Provider::Plimsoll => own::pool(self),
        }
    }

    /// An error if the pool cannot have such a volume. Ignores other volumes: see
    /// [`check_volumes`](Self::check_volumes).
    pub fn volume_limits(&self, volume: &Volume) -> Result<Limits, Refusal> {
        let of_pool = self.limits()?;
        volume.check_settings(self)?;
        self.check_volume_size(volume)?;
        let mut limits = match self.level.info().provider {
            Provider::Anf => anf::volume(self, volume)?,
            Provider::Gcnv => gcnv::volume(self, volume)?,
            Provider::Filestore => of_pool,
            Provider::Plimsoll => own::volume(self, volume)?,
        };
        if let Some(shaping) = volume.settings.shape {
            limits.shape = Some(shaping);
            limits = limits.with_origin("mix", shaping.to_string(), shaping.shape.source());
        }
        Ok(limits)
    }

    /// Checks number, sizes, and manual throughput together. Each volume must be valid by itself.
    pub fn check_volumes(&self, volumes: &[Volume]) -> Result<(), Refusal> {
        for volume in volumes {
            self.volume_limits(volume)?;
        }
        let by_hand = volumes.iter().filter_map(|volume| volume.settings.throughput);
        let totals = Totals {
            volumes: u64::try_from(volumes.len()).unwrap_or(u64::MAX),
            size: volumes.iter().fold(Bytes(0), |sum, volume| Bytes(sum.0.saturating_add(volume.size.0))),
            throughput: by_hand
                .fold(BytesPerSecond(0), |sum, rate| BytesPerSecond(sum.0.saturating_add(rate.0))),
        };
        self.check_totals(&totals)
    }

    /// Does not check that each volume is valid by itself.
    pub fn check_totals(&self, totals: &Totals) -> Result<(), Refusal> {
        let info = self.level.info();
        let source = info.sources[0];
        if let Some(max) = info.counts.volumes_per_pool
            && totals.volumes > u64::from(max)
        {
            let what = format!("{}: a pool with {} volumes", self.level, totals.volumes);
            return Err(Refusal::new(what, format!("at most {max}"), source));
        }
        if totals.size > self.size {
            let what = format!("{}: volumes of {} together", self.level, totals.size.for_people());
            return Err(Refusal::new(what, format!("at most the pool's {}", self.size.for_people()), source));
        }
        match self.limits()?.total.combined {
            Some(max) if totals.throughput > max => {
                let what =
                    format!("{}: volumes with a throughput of {} together", self.level, totals.throughput);
                Err(Refusal::new(what, format!("at most the pool's {max}"), source))
            }
            _ => Ok(()),
        }
    }

    pub fn check_resize(&self, to: Bytes, volumes: &[Volume]) -> Result<(), Refusal> {
        let info = self.level.info();
        if info.is_instance {
            let what = format!("{}: resizing the pool of an instance", self.level);
            return Err(Refusal::new(what, "resizing its volume, which is the same", F3));
        }
        if to < self.size && !info.pool_shrinks {
            let what = format!(
                "{}: shrinking a pool from {} to {}",
                self.level,
                self.size.for_people(),
                to.for_people()
            );
            return Err(Refusal::new(what, format!("{} or more", self.size), S1));
        }
        Self { size: to, ..self.clone() }.check_volumes(volumes)
    }

    /// An instance changes with its volume. Ignores other volumes.
    pub fn check_volume_resize(&self, volume: &Volume, resize: &Resize) -> Result<(), Refusal> {
        let info = self.level.info();
        let what = format!(
            "{}: resizing a volume from {} to {}",
            self.level,
            volume.size.for_people(),
            resize.to.for_people()
        );
        if resize.to < resize.used {
            let source = if info.provider == Provider::Anf { A2 } else { OWN };
            return Err(Refusal::new(what, format!("at least the {} stored in it", resize.used), source));
        }
        let resized = Volume { size: resize.to, ..volume.clone() };
        if info.is_instance {
            if resize.to < volume.size && !info.pool_shrinks {
                return Err(Refusal::new(what, format!("{} or more", volume.size), F3));
            }
            let pool = Self { size: resize.to, ..self.clone() };
            pool.volume_limits(&resized)?;
            return self.check_same_band(resize.to, &what);
        }
        let growth = crate::units::proportion(resize.lowest.0, 100 + LARGE_GROWTH_PERCENT, 100);
        if info.provider == Provider::Anf
            && volume.settings.large
            && resize.to > Bytes(growth.max(volume.size.0))
        {
            let allowed =
                format!("at most {LARGE_GROWTH_PERCENT} % over the least size it had, {}", resize.lowest);
            return Err(Refusal::new(what, allowed, A3));
        }
        self.volume_limits(&resized).map(drop)
    }

    /// `None` if no source gives a maximum.
    pub fn inodes(&self, volume: &Volume) -> Option<u64> {
        match self.level.info().provider {
            Provider::Anf => Some(anf::inodes(volume)),
            Provider::Gcnv => Some(gcnv::inodes(self.level, volume.size)),
            Provider::Filestore => Some(filestore::inodes(self.level, volume.size)),
            Provider::Plimsoll => None,
        }
    }

    pub(crate) fn band(&self) -> usize {
        self.sizes().and_then(|bands| bands.index(self.size)).unwrap_or(0)
    }

    pub(crate) fn with_max_settings(&self) -> Self {
        match self.level.info().provider {
            Provider::Anf => anf::with_max_settings(self),
            Provider::Gcnv => gcnv::with_max_settings(self),
            Provider::Filestore => filestore::with_max_settings(self),
            Provider::Plimsoll => self.clone(),
        }
    }

    /// Independent of the volume's size.
    pub(crate) fn volume_ceiling(&self, volume: &Volume) -> Option<(BytesPerSecond, Source)> {
        match (self.level.info().provider, self.level.info().owner) {
            (Provider::Anf, _) => Some(anf::ceiling(self, volume)),
            (Provider::Gcnv, Owner::Volume) => Some(gcnv::ceiling(self, volume)),
            _ => None,
        }
    }

    pub(crate) fn iops_max(&self, default: Iops) -> Iops {
        self.settings.profile.and_then(|profile| profile.info().iops_max).unwrap_or(default)
    }

    /// `None` if any size is allowed.
    pub(crate) fn sizes(&self) -> Option<Bands> {
        let of_profile = self.settings.profile.and_then(|profile| profile.sizes(self.level));
        of_profile.or(self.level.info().pool_sizes)
    }

    /// An instance stays in its original capacity range [F5].
    fn check_same_band(&self, to: Bytes, what: &str) -> Result<(), Refusal> {
        let Some(bands) = self.sizes().filter(|bands| bands.index(to) != bands.index(self.size)) else {
            return Ok(());
        };
        Err(Refusal::new(what, bands.ranges[self.band()].to_string(), crate::source::F5))
    }

    fn check_settings(&self) -> Result<(), Refusal> {
        let (level, info, settings) = (self.level, self.level.info(), &self.settings);
        let unknown = |what: &str| {
            let what = format!("{level}: {what}, which the level does not have");
            Err(Refusal::new(what, "the settings without it", info.sources[0]))
        };
        if !info.qos.contains(&self.qos()) {
            return unknown(if self.qos() == Qos::Auto { "auto QoS" } else { "manual QoS" });
        }
        if settings.throughput.is_some() && !info.settable.throughput {
            return unknown("a throughput of the pool");
        }
        if settings.iops.is_some() && !info.settable.iops {
            return unknown("operations of the pool");
        }
        if settings.tiering && !info.settable.tiering {
            return unknown("cool access or auto-tiering");
        }
        if settings.declared != Declared::default() && !info.settable.declared {
            let what = format!("{level}: custom limits of the pool, which only plimsoll/custom has");
            return Err(Refusal::new(what, "no custom limits: the level has its own", info.sources[0]));
        }
        settings.profile.map_or(Ok(()), |profile| profile.check(level, Target::Pool))
    }

    fn check_volume_size(&self, volume: &Volume) -> Result<(), Refusal> {
        let (info, large) = (self.level.info(), volume.settings.large);
        let what = format!("{}: {}", self.level, if large { "a large volume" } else { "a volume" });
        if let Some(bands) = volume.sizes(self.level) {
            bands.check(&what, volume.size)?;
        }
        let what =
            || format!("{what} of {} in a pool of {}", volume.size.for_people(), self.size.for_people());
        if info.is_instance && volume.size != self.size {
            return Err(Refusal::new(what(), "the pool's size: pool and volume are one instance", F3));
        }
        if volume.size > self.size {
            return Err(Refusal::new(
                what(),
                format!("at most the pool's {}", self.size.for_people()),
                info.sources[0],
            ));
        }
        Ok(())
    }
}

impl Volume {
    pub fn new(size: Bytes) -> Self {
        Self { size, settings: VolumeSettings::default() }
    }

    /// `None` if any size is allowed.
    pub(crate) fn sizes(&self, level: Level) -> Option<Bands> {
        let info = level.info();
        let of_level = if self.settings.large { info.large_volume_sizes } else { info.volume_sizes };
        self.settings.profile.and_then(|profile| profile.sizes(level)).or(of_level)
    }

    pub(crate) fn ceiling(
        &self,
        level: Level,
        default: BytesPerSecond,
        source: Source,
    ) -> (BytesPerSecond, Source) {
        let changed = |profile: Profile| Some((profile.throughput_max(level)?, profile.info().source));
        self.settings.profile.and_then(changed).unwrap_or((default, source))
    }

    pub(crate) fn with_iops(&self, mut limits: Limits, default: Option<(Iops, Source)>) -> Limits {
        let info = self.settings.profile.map(Profile::info);
        let combined = match info {
            Some(info) => info.iops_max.map(|iops| (iops, info.source)),
            None => default,
        };
        if let Some((iops, source)) = combined {
            limits.total.combined_iops = Some(iops);
            limits = limits.with_origin(OPERATIONS, format!("at most {iops:#}"), source);
        }
        if let Some((info, (reads, writes))) = info.and_then(|info| Some((info, info.read_write_iops_max?))) {
            (limits.total.read_iops, limits.total.write_iops) = (Some(reads), Some(writes));
            let formula = format!("at most {reads:#} read and {writes:#} written");
            limits = limits.with_origin(OPERATIONS, formula, info.source);
        }
        limits
    }

    /// Throughput by capacity, `rate` for each `per`, up to `ceiling`.
    pub(crate) fn by_size(
        &self,
        rate: BytesPerSecond,
        per: Bytes,
        per_name: &str,
        ceiling: (BytesPerSecond, Source),
        source: Source,
    ) -> Limits {
        let (ceiling, ceiling_source) = ceiling;
        let earned = rate.scale(self.size, per);
        let formula = format!("{:#} × {rate:#} per {per_name} = {earned:#}", self.size);
        let limits = Limits::for_all_clients(Owner::Volume, Ceilings::combined(earned.min(ceiling)));
        limits.with_origin("throughput", formula, source).with_origin(
            "throughput ceiling",
            format!("at most {ceiling:#}"),
            ceiling_source,
        )
    }

    /// Manual throughput, up to `ceiling` and to the pool's throughput.
    pub(crate) fn manual(&self, pool: &Pool, ceiling: (BytesPerSecond, Source)) -> Result<Limits, Refusal> {
        let (ceiling, source) = ceiling;
        let of_pool = pool.limits()?.total.combined.unwrap_or(ceiling);
        let range = Range { min: BytesPerSecond::mib(1), max: ceiling.min(of_pool), step: BytesPerSecond(1) };
        let Some(rate) = self.settings.throughput else {
            let what = format!("{}: a volume without a throughput, with manual QoS", pool.level);
            return Err(Refusal::new(what, range.to_string(), source));
        };
        range.check(&format!("{}: a volume with a throughput", pool.level), rate, source)?;
        let limits = Limits::for_all_clients(Owner::Volume, Ceilings::combined(rate));
        Ok(limits.with_origin("throughput", format!("{rate:#} as set ({range:#})"), source))
    }

    fn check_settings(&self, pool: &Pool) -> Result<(), Refusal> {
        let (level, info, settings) = (pool.level, pool.level.info(), &self.settings);
        if settings.throughput.is_some() && pool.qos() == Qos::Auto {
            let what = format!("{level}: a throughput of the volume, with auto QoS");
            return Err(Refusal::new(what, "manual QoS, or no throughput", A9));
        }
        if settings.large && info.large_volume_sizes.is_none() {
            return Err(Refusal::new(format!("{level}: a large volume"), "regular volumes", info.sources[0]));
        }
        if settings.declared != Declared::default() && !info.settable.declared {
            let what = format!("{level}: custom limits of the volume, which only plimsoll/custom has");
            return Err(Refusal::new(what, "no custom limits: the level has its own", info.sources[0]));
        }
        if settings.shape.is_some_and(|shaping| shaping.scale_thousandths == 0) {
            return Err(Refusal::new(format!("{level}: a shape scaled by 0"), "0.001 or more", OWN));
        }
        let target = if settings.large { Target::LargeVolume } else { Target::Volume };
        settings.profile.map_or(Ok(()), |profile| profile.check(level, target))
    }
}

#[cfg(test)]
mod tests;
