CREATE TABLE `ta``ble-表` (
  `id` int(11) NOT NULL,
  `from` int(11) DEFAULT NULL,
  `ключ` varchar(9) DEFAULT NULL,
  `a``b` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci;

CREATE TABLE `prefixed` (
  `b` int(11) DEFAULT NULL,
  `name` varchar(50) NOT NULL,
  `id` int(11) NOT NULL,
  `v` blob NOT NULL,
  PRIMARY KEY (`name`(4),`id`,`v`(7))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci;

CREATE TABLE `unkeyed` (
  `a` int(11) DEFAULT NULL,
  `b` varchar(20) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci;

CREATE TABLE `made` (
  `id` int(11) NOT NULL,
  `a` int(11) DEFAULT NULL,
  `v` int(11) GENERATED ALWAYS AS (`a` * 2) VIRTUAL,
  `s` varchar(40) GENERATED ALWAYS AS (concat('s',`a`)) STORED,
  `hid` int(11) DEFAULT 7 INVISIBLE,
  `z` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci;

CREATE TABLE `moved` (
  `at` datetime(3) DEFAULT NULL,
  `id` int(11) NOT NULL,
  `b` varchar(300) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci;
