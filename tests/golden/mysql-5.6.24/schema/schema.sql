CREATE TABLE `ta``ble-表` (
  `id` int(11) NOT NULL,
  `from` int(11) DEFAULT NULL,
  `ключ` varchar(9) DEFAULT NULL,
  `a``b` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `prefixed` (
  `b` int(11) DEFAULT NULL,
  `name` varchar(50) NOT NULL,
  `id` int(11) NOT NULL,
  `v` blob NOT NULL,
  PRIMARY KEY (`name`(4),`id`,`v`(7))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `unkeyed` (
  `a` int(11) DEFAULT NULL,
  `b` varchar(20) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `moved` (
  `at` datetime(3) DEFAULT NULL,
  `id` int(11) NOT NULL,
  `b` varchar(300) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
