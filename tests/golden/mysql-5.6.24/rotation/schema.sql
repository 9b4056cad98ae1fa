CREATE TABLE `r` (
  `id` int(11) NOT NULL,
  `v` varchar(200) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
